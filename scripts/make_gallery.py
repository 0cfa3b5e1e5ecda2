"""Trains six small models and writes gallery/index.html: the loss, a sample, figures and the page of each.

The first card is the page of the base model, which learns from a text that is pasted.

    python scripts/make_gallery.py                     # or: make gallery
    python scripts/make_gallery.py --minutes 2 --only recipes --only chess
    python scripts/make_gallery.py --shakespeare shakespeare.txt --pairs eng-deu.tsv

What is finished is kept, and training that was interrupted goes on. To make a model again, remove its
folder in runs/gallery and its files in gallery. Shakespeare and translation need a text, which the options
or the environment variables MINIGPT_SHAKESPEARE and MINIGPT_PAIRS name.
"""

import argparse
import html
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import minigpt
from minigpt.runs.layout import model_path
from minigpt.targets.html.file_page import write_file_page

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "examples"))
# Of a page with states of training. Without any, that of translation has 4.2 MB; the index has 1.2 MB.
LARGEST_PAGE = 2_800_000
INGREDIENTS = {
    "vegetables": ["beets", "carrots", "leeks", "onions", "turnips", "beans", "pumpkins"],
    "extras": ["rice", "noodles", "lentils", "chickpeas", "barley", "cheese", "tofu", "eggs"],
    "spices": ["mint", "paprika", "thyme", "cumin", "parsley", "ginger", "garlic", "basil"],
}
DISHES = {
    "soup": ("a large pot", "Pour in {n} cups of water and let it simmer for {m} minutes."),
    "stew": ("a heavy pot", "Add {n} cups of stock, cover and cook slowly for {m} minutes."),
    "casserole": ("an oven dish", "Bake it in the oven for {m} minutes."),
    "salad": ("a wide bowl", "Let it rest for {m} minutes before you serve it."),
}


def recipe(draw: random.Random) -> str:
    """Returns a recipe whose steps use its ingredients, each once."""
    dish, (vessel, cooking) = draw.choice(list(DISHES.items()))
    first, second = draw.sample(INGREDIENTS["vegetables"], 2)
    extra, spice = draw.choice(INGREDIENTS["extras"]), draw.choice(INGREDIENTS["spices"])
    people = draw.choice((2, 4, 6))
    steps = [
        f"Wash the {first} and the {second} and cut them into {draw.choice(('cubes', 'slices'))}.",
        f"Put the {first} into {vessel}, with {draw.randint(1, 3)} spoons of oil.",
        f"Add the {second} and the {extra}, and stir.",
        cooking.format(n=people, m=5 * draw.randint(2, 9)),
        f"Season with salt and {spice}. Serve it {draw.choice(('hot', 'with bread', 'at once'))}.",
    ]
    lines = [f"{first.capitalize()[:-1]} {dish} with {extra}", "", f"For {people} people:"]
    lines += [f"- {people // 2 * draw.randint(1, 3)} {name}" for name in (first, second)]
    lines += [f"- {50 * people} g of {extra}", f"- {spice}, salt, oil", ""]
    return "\n".join(lines + [f"{number}. {step}" for number, step in enumerate(steps, 1)])


def recipe_book(folder: Path, options: argparse.Namespace) -> list[str]:
    draw = random.Random(0)
    rows = [json.dumps({"text": recipe(draw)}) for _ in range(options.examples)]
    (folder / "recipes.jsonl").write_text("\n".join(rows) + "\n")
    return [str(folder / "recipes.jsonl")]


def chess_games(folder: Path, options: argparse.Namespace) -> list[str]:
    """Writes games as examples/chess_games.py does; returns its settings."""
    from chess_games import END, all_moves, random_game

    draw, names = random.Random(0), [*all_moves(), END]
    ids = {name: number for number, name in enumerate(names)}
    games = [random_game(draw, 40) for _ in range(8 * options.examples)]
    np.save(folder / "games.npy", np.array([ids[m] for g in games for m in (*g, END)], "uint16"))
    (folder / "moves.txt").write_text("\n".join(names) + "\n")
    options.set += ["data.source=ids", "tokenizer.kind=listed"]
    options.set += [f"tokenizer.path={folder / 'moves.txt'}"]
    return [str(folder / "games.npy")]


def text_file(name: str) -> Callable[[Path, argparse.Namespace], list[str]]:
    """Returns a function that returns the text that an option names.

    It raises a `UserError` if there is none.
    """

    def find(folder: Path, options: argparse.Namespace) -> list[str]:
        if path := getattr(options, name) or os.environ.get(f"MINIGPT_{name.upper()}"):
            return [str(path)]
        raise minigpt.UserError(f"it needs a text: --{name} FILE")

    return find


@dataclass(frozen=True)
class Entry:
    """A model of the gallery.

    Attributes:
      title, about: shown in the index.
      config: a shipped configuration; None: `--text` chooses.
      text: writes or finds the text; returns its paths; None for the text of the configuration.
      settings: as for `minigpt train --set`.
      prompt: what the sample continues, or the sentences to be translated.
    """

    title: str
    about: str
    prompt: str
    config: str | None = None
    text: Callable[[Path, argparse.Namespace], list[str]] | None = None
    settings: tuple[str, ...] = ()


ENTRIES = {
    "stories": Entry("Stories", "The bundled stories.", "Once upon a time", "default"),
    "shakespeare": Entry(
        *("Shakespeare", "Plays, character by character.", "ROMEO:\n"),
        # The tables of n-grams would double the size of the page.
        *("shakespeare_character", text_file("shakespeare"), ("model.ngrams=[]",)),
    ),
    "python": Entry(
        *("Python", "The source code of Python's standard library.", "def read_", "python")
    ),
    "recipes": Entry(
        *("Recipes", "A recipe book that a small program wrote.", "Carrot soup with"),
        *(None, recipe_book),
    ),
    "chess": Entry(
        *("Chess", "Games of random legal moves; a move is a token.", "e2e4 e7e5"),
        *(None, chess_games),
    ),
    "translation": Entry(
        *("Translation", "English to German."),
        "I have a new car.\nWhere is the station?\nShe is reading a book.",
        *("translate_eng_deu", text_file("pairs")),
    ),
}


def trained(name: str, runs: Path, options: argparse.Namespace) -> minigpt.Run:
    """Trains a model, or what is left of it.

    Raises:
      UserError: its text is not there, or cannot be used.
    """
    entry, path = ENTRIES[name], runs / name
    if (path / "model.gguf").is_file():
        return minigpt.Run(path)
    if (path / "config.toml").is_file():
        return minigpt.resume(path)
    folder = runs / "texts"
    folder.mkdir(parents=True, exist_ok=True)
    own = argparse.Namespace(**vars(options) | {"set": [*entry.settings]})
    paths = entry.text(folder, own) if entry.text else []
    overrides = [f"training.max_minutes={options.minutes:g}", *own.set, *options.set]
    config = minigpt.load_config(entry.config, overrides, paths)
    return minigpt.train(config, path)


def write_page(run: minigpt.Run, page: Path) -> None:
    """Writes the page of a run in int8, with as many states of training as its size allows."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / run.path.name
        shutil.copytree(run.path, copy, ignore=shutil.ignore_patterns("saved_model", "*.keras"))
        for _ in range(9):
            page.unlink(missing_ok=True)
            minigpt.export_run(minigpt.Run(copy), "html", page, weights="int8")
            states = sorted(copy.glob("snapshots/*.gguf"))
            if page.stat().st_size <= LARGEST_PAGE or not states:
                return
            for state in states[::2]:
                state.unlink()


def described(name: str, run: minigpt.Run) -> dict[str, Any]:
    """Returns the sample and the figures of a model."""
    entry, model = ENTRIES[name], minigpt.load_portable(run.portable_file)
    lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    best = min(lines, key=lambda line: line["val_loss"])
    if isinstance(model, minigpt.PortableTranslationModel):
        sources = entry.prompt.splitlines()
        sample = "\n".join(
            f"{a} → {b}" for a, b in zip(sources, model.translate(sources), strict=True)
        )
        figure = f"BLEU {max(line['val_bleu'] or 0 for line in lines):.1f}"
    elif name == "chess":
        from chess_games import legal_moves

        opening = entry.prompt.split()
        games = model.generate(
            entry.prompt, num_samples=50, max_new_tokens=20, seed=1, temperature=1
        )
        counts = [legal_moves(opening, game.split()) for game in games]
        legal, tried = map(sum, zip(*counts, strict=True))
        sample = f"{entry.prompt} {games[0].strip()}"
        figure = f"{legal / max(1, tried):.1%} of its moves are legal"
    else:
        options: dict[str, Any] = {"max_new_tokens": 120, "seed": 1, "temperature": 0.6}
        sample = entry.prompt + model.generate(entry.prompt, **options)[0]
        figure = f"{best['val_bits_per_byte']:.3f} bits per byte"
    return {
        "sample": sample,
        "figure": figure,
        "minutes": lines[-1]["seconds"] / 60,
        "parameters": run.facts["parameters"],
        "losses": [line["val_loss"] for line in lines],
    }


def card(name: str, gallery: Path) -> str:
    """Returns the part of the index for a model that is in the gallery."""
    entry, page = ENTRIES[name], gallery / f"{name}.html"
    values = json.loads((gallery / f"{name}.json").read_text())
    first, last = values["losses"][0], values["losses"][-1]
    facts = (
        f"{values['figure']} · {values['parameters']:,} parameters · "
        f"trained for {values['minutes']:.1f} min · "
        f"loss from {first:.2f} to {last:.2f} · page of {page.stat().st_size / 1e6:.1f} MB"
    )
    return (
        f'<article><h2><a href="{name}.html">{entry.title}</a></h2><p>{entry.about}</p>'
        f"<pre>{html.escape(values['sample'])}</pre><p>{facts}</p></article>"
    )


def write_index(gallery: Path) -> int:
    """Writes the page of the base, and the index of a folder; returns the bytes of all files."""
    page = gallery / "english.html"
    if not page.is_file():
        write_file_page(model_path("english"), page)
    size = f"page of {page.stat().st_size / 1e6:.1f} MB"
    about = "Paste a text of yours: in half a minute the model learns to write like it, in your browser."
    cards = [
        f'<article><h2><a href="english.html">Your own text</a></h2><p>{about}</p><p>{size}</p></article>'
    ]
    cards += [card(name, gallery) for name in ENTRIES if (gallery / f"{name}.json").is_file()]
    style = (Path(__file__).parent / "gallery.css").read_text()
    (gallery / "index.html").write_text(
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>minigpt: gallery</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{style}</style></head>\n<body><h1>Models that minigpt has trained</h1>\n"
        "<p>Each was trained in minutes. Its page contains the model and runs it in the "
        f"browser.</p>\n<main>\n{chr(10).join(cards)}\n</main></body>\n</html>\n",
        encoding="utf-8",
    )
    return sum(path.stat().st_size for path in gallery.glob("*.html"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Trains six small models and shows them on a page."
    )
    parser.add_argument(
        "--output", type=Path, default=Path("gallery"), help="folder of index.html (gallery)"
    )
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/gallery"), help="folder of the runs (runs/gallery)"
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="of training, for each model")
    parser.add_argument(
        "--only",
        action="append",
        choices=ENTRIES,
        metavar="NAME",
        help=f"repeatable; the models to train, of {', '.join(ENTRIES)}",
    )
    parser.add_argument("--shakespeare", help="a file with the plays")
    parser.add_argument("--pairs", help="a file with English and German sentences")
    parser.add_argument(
        "--examples", type=int, default=2000, help="recipes; eight times as many games"
    )
    parser.add_argument("--set", action="append", default=[], help="as for minigpt train")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.only or ENTRIES:
        page, record = (options.output / f"{name}.{ending}" for ending in ("html", "json"))
        if page.is_file() and record.is_file():
            print(f"{name}: kept")
            continue
        try:
            run = trained(name, options.runs, options)
        except (minigpt.UserError, ModuleNotFoundError) as error:
            print(f"{name}: skipped: {error}")
            continue
        write_page(run, page)
        record.write_text(json.dumps(described(name, run)))
        write_index(options.output)
    size = write_index(options.output)
    print(f"{options.output / 'index.html'}: {size / 1e6:.1f} MB with the pages")


if __name__ == "__main__":
    main()
