"""Makes the base model, `data/base/english.gguf`: a small GPT that knows English.

    python scripts/make_base.py WORKS [DOCUMENTATION]

WORKS is a folder of texts, one file a work, one paragraph a line. DOCUMENTATION is a folder of source
archives (`pip download --no-deps --no-binary :all: django`), of WordNet's `data.*` files and of texts.
data/README.md lists both, with their licenses.

The script writes build/base/train.jsonl and held_out.jsonl, trains configs/base_english.toml on them and
exports the model. If the run exists, its training is resumed.

People's texts have curly or straight quotes, and line breaks in paragraphs or none. So each document is
written in one of these ways, drawn at random, and is a piece of a work.
"""

import argparse
import json
import random
import re
import tarfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import zstandard
from make_dialogues import dialogue

import minigpt

PROJECT = Path(__file__).resolve().parents[1]
SEED = 0
# Works whose files begin so are not learned: the base is measured on them.
HELD_OUT = ("hope-", "gaskell-", "jacobs-", "jacobs_ww-")
# Bytes of the shortest and the longest document. The logarithms of the sizes are uniform.
DOCUMENT_BYTES = (400, 40_000)
STORIES_BYTES, DIALOGUES = 1_000_000, 1_500
# Markup of reStructuredText and Markdown, and its text.
MARKUP = [
    (re.compile(r":[\w:+-]+:`~?([^`<]*?)\s*(?:<[^`>]*>)?`"), r"\1"),
    (re.compile(r"`([^`<]+?)\s*<[^`>]*>`_+"), r"\1"),
    (re.compile(r"\[([^\]]+)\]\([^)]*\)"), r"\1"),
    (re.compile(r"`+([^`]+)`+_*"), r"\1"),
    (re.compile(r"\*+([^*]+)\*+"), r"\1"),
]
DOCUMENT = re.compile(r"/docs?/(?!.*(?:change|release|news|whatsnew)).*\.(?:txt|rst|md)$")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("works", type=Path)
    parser.add_argument("documentation", type=Path, nargs="?")
    parser.add_argument("--folder", type=Path, default=PROJECT / "build/base")
    parser.add_argument("--output", type=Path, default=PROJECT / "data/base/english.gguf")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the forms and the order of the documents"
    )
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    arguments = parser.parse_args()
    run = arguments.folder / "run"
    if run.exists():
        minigpt.resume(run, arguments.overrides)
    else:
        texts = write_texts(
            arguments.works, arguments.documentation, arguments.folder, arguments.seed
        )
        paths = [
            f"data.{name}={json.dumps([str(file)])}"
            for name, file in zip(("paths", "val_paths"), texts, strict=True)
        ]
        config = PROJECT / "configs/base_english.toml"
        minigpt.train(config, run, overrides=[*paths, *arguments.overrides])
    arguments.output.unlink(missing_ok=True)
    minigpt.export_run(run, "gguf", arguments.output, weights="int8")


def write_texts(works: Path, folder: Path | None, output: Path, seed: int) -> list[Path]:
    """Writes the documents to learn and the held-out ones; returns both files."""
    rng = random.Random(seed)
    train: list[str] = []
    held_out: list[str] = []
    for path in sorted(works.glob("*.txt")):
        is_held_out = path.name.startswith(HELD_OUT)
        paragraphs = path.read_text("utf-8").splitlines()
        (held_out if is_held_out else train).extend(documents(paragraphs, rng))
    for paragraphs in documentation(folder, rng):
        train.extend(documents(paragraphs, rng))
    train.extend(own_texts())
    if not held_out:
        raise SystemExit(
            f"{works}: has no text to measure on, a .txt that begins with one of {', '.join(HELD_OUT)}"
        )
    rng.shuffle(train)
    output.mkdir(parents=True, exist_ok=True)
    files = [output / "train.jsonl", output / "held_out.jsonl"]
    # A fifth of the held-out documents is enough for a loss.
    for file, texts in zip(files, (train, held_out[::5]), strict=True):
        lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
        file.write_text("\n".join(lines) + "\n", "utf-8")
    return files


def documents(paragraphs: list[str], rng: random.Random) -> Iterator[str]:
    """Yields pieces of a work, each written in one of the ways in which people write texts."""
    paragraphs = [line.strip() for line in paragraphs if line.strip()]
    low, high = DOCUMENT_BYTES
    start = 0
    while start < len(paragraphs):
        size, end = low * (high / low) ** rng.random(), start
        while end < len(paragraphs) and size > 0:
            size -= len(paragraphs[end])
            end += 1
        piece, start = paragraphs[start:end], end
        if rng.random() < 0.25:
            # The held-out part of a text begins in the middle of a paragraph.
            words = piece[0].split(" ")
            piece[0] = " ".join(words[rng.randrange(len(words)) :])
        yield written(piece, rng)


def written(paragraphs: list[str], rng: random.Random) -> str:
    """Returns a text of paragraphs with quotes, dashes, line breaks and capitals drawn at random."""
    separator = rng.choice(["\n", "\n\n", "\n\n"])
    if rng.random() < 0.25:
        width = rng.randint(60, 80)
        paragraphs = [textwrap.fill(line, width, break_long_words=False) for line in paragraphs]
        separator = "\n\n"
    text = separator.join(paragraphs)
    if rng.random() < 0.5:
        text = re.sub(r'(^|[\s(\[-])"', "\\1\u201c", text, flags=re.M).replace('"', "\u201d")
        text = re.sub(r"(^|[\s(\[\u201c-])'", "\\1\u2018", text, flags=re.M).replace("'", "\u2019")
        text = text.replace("--", rng.choice(["\u2014", "\u2014", " \u2013 "]))
    chance = rng.random()
    return text.lower() if chance < 0.04 else text.upper() if chance < 0.045 else text


def documentation(folder: Path | None, rng: random.Random) -> Iterator[list[str]]:
    """Yields the paragraphs of each text of a folder of archives, texts and WordNet's files."""
    for path in sorted(folder.iterdir()) if folder else []:
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                for member in filter(lambda member: DOCUMENT.search(member.name), archive):
                    if file := archive.extractfile(member):
                        yield list(prose(file.read().decode("utf-8", "replace")))
        elif path.name.startswith("data."):
            yield from glosses(path, rng)
        else:
            yield list(prose(path.read_text("utf-8", "replace")))


def prose(text: str) -> Iterator[str]:
    """Yields the paragraphs of a document that are sentences, without markup."""
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n").expandtabs()):
        line = " ".join(block.split())
        for pattern, replacement in MARKUP:
            line = pattern.sub(replacement, line)
        is_sentence = re.match(r"[A-Z\"(]", line) and line[-1:] in ".:!?\"')"
        is_plain = not re.search(r"[|<>{}_=\\#]|::|\.\. |https?:", line)
        if is_sentence and is_plain and len(line) > 60:
            yield line.rstrip(":") + "." if line.endswith(":") else line


def glosses(path: Path, rng: random.Random) -> Iterator[list[str]]:
    """Yields lists of definitions with an example: `word: definition; "example"`."""
    lines = []
    for line in path.read_text("utf-8").splitlines():
        if line[:1].isdigit() and '"' in line:
            fields, _, gloss = line.partition(" | ")
            lines.append(f"{fields.split()[4].replace('_', ' ')}: {gloss.strip()}")
    rng.shuffle(lines)
    for start in range(0, len(lines), 50):
        yield lines[start : start + 50]


def own_texts() -> Iterator[str]:
    """Yields the first of the project's stories, and dialogues that the bundled ones do not have."""
    opener = zstandard.ZstdDecompressor()
    with opener.stream_reader((PROJECT / "data/stories.txt.zst").open("rb")) as file:
        stories = file.read(STORIES_BYTES).decode("utf-8", "ignore")
    yield from (story.strip() for story in stories.split("\n\n") if story.strip())
    rng = random.Random(f"base {SEED}")
    for _ in range(DIALOGUES):
        yield "\n".join(message["content"] for message in dialogue(rng))


if __name__ == "__main__":
    main()
