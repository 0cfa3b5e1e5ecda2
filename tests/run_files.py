"""The files of a finished run."""

import json
from pathlib import Path

RUN_FILES = {
    "config.toml",
    "corpus.json",
    "tokenizer",
    "metrics.jsonl",
    "samples.jsonl",
    "steps.jsonl",
    "analysis.json",
    "report.html",
    "facts.json",
    "snapshots",
    "checkpoints",
    "model.keras",
    "saved_model",
    "model.gguf",
    "lock",
}


def names_in(run: Path) -> set[str]:
    """Returns the names in a run directory, without what exports of other tests have left."""
    return {path.name for path in run.iterdir()} - {"certificates"}


# A line of metrics.jsonl; a translating model has "val_bleu" too.
METRICS = {
    "epoch",
    "step",
    "train_loss",
    "val_loss",
    "val_perplexity",
    "val_bits_per_byte",
    "tokens_per_second",
    "seconds",
    "learning_rate",
}


def records(file: Path) -> list[dict]:
    """Returns the records of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
