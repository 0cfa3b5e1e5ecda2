"""Trains `minigpt train --text` on texts of several sizes and for several times; prints a table of scores.

    python scripts/measure_texts.py TEXT... [--bytes N]... [--minutes M]... [--set SECTION.KEY=VALUE]...

The table has a row for each text, number of bytes (5,000 to 100,000,000 unless given; those that a text
does not have are left out) and time limit (1, 3, 10 and 60 minutes unless given): what was chosen, and the
bits per byte of the held-out text beside those of the frozen n-gram (of tokens or of bytes, the better one)
and of PPMd.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from minigpt.runs.records import read_lines
from minigpt.runs.run import Run

BYTES = (5_000, 20_000, 100_000, 500_000, 2_000_000, 10_000_000, 100_000_000)
MINUTES = (1.0, 3.0, 10.0, 60.0)
COLUMNS = ("text", "bytes", "min", "chosen", "s", "bits/byte", "n-gram", "PPMd")


def row(text: str, size: int, minutes: float, run: Run) -> tuple[str, ...]:
    """Returns a row of the table: COLUMNS for a finished run."""
    model, training, tokenizer = run.config.model, run.config.training, run.config.tokenizer
    records = read_lines(run.metrics_file)
    baselines = run.analysis["baselines"]
    chosen = (
        f"{tokenizer.kind} {tokenizer.vocab_size}, {model.num_layers} x {model.embed_dim}, "
        f"{training.batch_size} x {training.sequence_length or model.max_len}"
    )
    scores = (
        min(record["val_bits_per_byte"] for record in records),
        min(baselines["ngram_bits_per_byte"], baselines["byte_ngram_bits_per_byte"]),
        baselines["ppmd_bits_per_byte"],
    )
    seconds = f"{records[-1]['seconds']:.0f}"
    return (
        text,
        f"{size:,}",
        f"{minutes:g}",
        chosen,
        seconds,
        *(f"{score:.3f}" for score in scores),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("texts", nargs="+", type=Path, metavar="TEXT")
    parser.add_argument("--bytes", type=int, action="append", help="may be repeated")
    parser.add_argument("--minutes", type=float, action="append", help="may be repeated")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    options = parser.parse_args(arguments)
    settings = [argument for setting in options.set for argument in ("--set", setting)]
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for path in options.texts:
            text = path.read_bytes()
            sizes = [size for size in options.bytes or BYTES if size <= len(text)]
            for size in sizes or [len(text)]:
                beginning = Path(folder) / path.name
                beginning.write_bytes(text[:size].decode("utf-8", "ignore").encode())
                for minutes in options.minutes or MINUTES:
                    run = Path(folder) / f"{path.stem}-{size}-{minutes:g}"
                    command = [sys.executable, "-m", "minigpt", "train", "--text", str(beginning)]
                    command += ["--run", str(run), "--set", f"training.max_minutes={minutes}"]
                    # In a process of its own, as a user starts it.
                    result = subprocess.run([*command, *settings], stdout=subprocess.DEVNULL)
                    if result.returncode:
                        return result.returncode
                    print(f"| {' | '.join(row(path.stem, size, minutes, Run(run)))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
