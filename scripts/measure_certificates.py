"""Makes the certificates of six configurations in every format, and prints them as a Markdown table.

    python scripts/measure_certificates.py [CONFIGURATION]... [--steps 30] [--formats gguf onnx:int8 ...]

The models are trained for a few steps on the bundled stories: how well an export agrees with its run does
not depend on the quality of the model. With --steps 0 they are not trained: random values are added to the
initial weights; pairs are trained for one step. Formats that do not support a model, or whose extra is not
installed, are left out.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path
from typing import Any

import keras
import numpy as np

import minigpt
from minigpt.corpus.sources import stories
from minigpt.models import build_model
from minigpt.targets.certificate import certify
from minigpt.targets.targets import TARGETS
from minigpt.tokenizers import learn_tokenizer

CONFIGURATIONS = (
    "default",
    "bpe_gpt",
    "annotated_gpt",
    "shakespeare_character",
    "imdb_keras_example",
    "translate_eng_deu",
)
EXPORTS = (*TARGETS, "gguf:int8", "litert:int8", "onnx:int8", "transformers_js:int8")
COLUMNS = (
    "configuration",
    "format",
    "weights",
    "MB",
    "logits",
    "greedy texts",
    "bits per byte",
    "difference",
    "lines",
    "tokens/s",
    "within tolerance",
)
# The number of stories in the text that replaces downloads.
NUM_STORIES = 1500
# Standard deviation of what is added to the weights of a model that is not trained.
WEIGHT_NOISE = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "configurations", nargs="*", default=CONFIGURATIONS, metavar="CONFIGURATION"
    )
    parser.add_argument("--steps", type=int, default=30, help="of each training; 0: random weights")
    parser.add_argument(
        "--formats", nargs="*", default=EXPORTS, help="FORMAT or FORMAT:WEIGHTS; default: all"
    )
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    print(
        f"minigpt {minigpt.__version__}, {platform.machine()}, {os.cpu_count()} cores; "
        f"{arguments.steps} steps of training\n"
    )
    print(row(COLUMNS), row("---" for _ in COLUMNS), sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.configurations:
            run = train(name, arguments.steps, arguments.set, Path(folder))
            for kind in arguments.formats:
                began = time.perf_counter()
                if certificate := certificate_of(run, kind, Path(folder) / f"{name}-{kind}"):
                    print(row([name, *cells(certificate)]), flush=True)
                print(f"{name} {kind}: {time.perf_counter() - began:.0f} s", file=sys.stderr)


def train(name: str, steps: int, overrides: list[str], folder: Path) -> minigpt.Run:
    """Trains a shipped configuration on the bundled stories, in place of its text."""
    pairs = name.startswith("translate")
    if not steps and not pairs:
        return random_run(name, overrides, folder / name)
    short = ["training.epochs=1", f"training.steps_per_epoch={max(1, steps)}"]
    short += ["training.max_minutes=none", "training.keep_epochs=false"]
    # The default one has the stories already; with a file, other sizes would be chosen.
    text = [] if name == "default" else [text_path(folder, pairs)]
    config = minigpt.load_config(name, [*short, *overrides], text)
    with redirect_stdout(sys.stderr):
        return minigpt.train(config, folder / name)


def random_run(name: str, overrides: list[str], path: Path) -> minigpt.Run:
    """Creates a run of a shipped configuration with random weights; its tokenizer has read the stories."""
    config = minigpt.load_config(name, overrides)
    tokenizer = learn_tokenizer(list(islice(stories(), NUM_STORIES)), config.tokenizer)
    keras.utils.set_random_seed(0)
    model = build_model(config.model, tokenizer.vocab_size)
    draw = np.random.default_rng(0)
    # A head of zeros, as some have at first, would make all formats agree.
    noise = (WEIGHT_NOISE * draw.standard_normal(values.shape) for values in model.get_weights())
    model.set_weights([old + new for old, new in zip(model.get_weights(), noise, strict=True)])
    return minigpt.Run.create(path, config, tokenizer, None, model)


def text_path(folder: Path, pairs: bool) -> str:
    """Writes the stories, one file each; as pairs, each line with its words in reverse order."""
    told = list(islice(stories(), NUM_STORIES))
    path = folder / ("pairs.tsv" if pairs else "stories")
    if pairs:
        lines = {line for story in told for line in story.splitlines() if line.strip()}
        rows = (f"{line}\t{' '.join(reversed(line.split()))}\n" for line in sorted(lines))
        path.write_text("".join(rows), encoding="utf-8")
    elif not path.exists():
        path.mkdir()
        for number, story in enumerate(told):
            (path / f"{number:04}.txt").write_text(story, encoding="utf-8")
    return str(path)


def certificate_of(run: minigpt.Run, kind: str, path: Path) -> dict[str, Any] | None:
    """Exports a run and returns the certificate; None if the format does not support the run.

    A certificate that is outside the tolerance is returned too.
    """
    format, _, weights = kind.partition(":")
    try:
        minigpt.export_run(run, format, path, weights=weights or "float32")
    except minigpt.UserError as error:
        print(error, file=sys.stderr)
        return None
    return certify(path, run, format)


def cells(certificate: dict[str, Any]) -> list[str]:
    """Returns the values of a certificate, in the order of `COLUMNS`."""
    logits, bits = certificate["logits"], certificate["bits_per_byte"]
    greedy, tokenizer = certificate["greedy"], certificate["tokenizer"]
    return [
        certificate["format"],
        certificate["weights"],
        f"{certificate['bytes'] / 1e6:.1f}",
        f"{logits['largest_difference']:.1e}" if logits else "–",
        f"{greedy['same_texts']} of {greedy['prompts']}",
        f"{bits['source']:.4f}" if bits else "–",
        f"{bits['relative_difference']:.4%}" if bits else "–",
        f"{tokenizer['same']:,} of {tokenizer['lines']:,}",
        f"{certificate['tokens_per_second']:,.0f}",
        "; ".join(certificate["problems"]) or "yes",
    ]


def row(values: Any) -> str:
    return f"| {' | '.join(values)} |"


if __name__ == "__main__":
    main()
