"""What the page of a model says about it."""

import json
from pathlib import Path
from typing import Any

import minigpt
from minigpt.portable.run_file import best_facts, read_records
from minigpt.portable.writing import WeightsType
from minigpt.runs.checkpoints import checkpoint_paths, count_parameters
from minigpt.runs.run import Run

# Epochs whose samples are shown.
_MOST_EPOCHS = 100


def model_facts(run: Run, weights: WeightsType, epochs: dict[int, bool]) -> dict[str, Any]:
    """Returns the facts as JSON values; null for what is not known.

    Args:
      run: the run.
      weights: how the page stores the matrices of the model.
      epochs: the epochs whose weights are in the page: whether they are those of the model itself.
    """
    config, tokenizer = run.config, run.load_tokenizer()
    recorded = run.facts
    metrics = [_without_nan(record) for record in read_records(run.metrics_file)]
    by_epoch = {record.get("epoch"): record for record in metrics}
    return {
        "title": run.path.absolute().name,
        "kind": config.model.kind,
        "version": minigpt.__version__,
        "weights": weights,
        "parameters": recorded.get("parameters") or _parameters(run),
        "tokenizer": {
            "kind": tokenizer.kind,
            "vocab_size": tokenizer.vocab_size,
            "lowercase": tokenizer.lowercase,
        },
        "model": config.model.resolved().model_dump(mode="json"),
        "sampling": config.sampling.model_dump(mode="json"),
        "text": {
            "description": recorded.get("text"),
            "train_bytes": recorded.get("train_bytes"),
            "train_tokens": recorded.get("train_tokens"),
            "val_tokens": recorded.get("val_tokens"),
            "license": config.data.license,
        },
        **best_facts(run),
        "metrics": metrics,
        "baselines": recorded.get("baselines"),
        "samples": _samples(run.samples_file),
        "command": recorded.get("command"),
        "epochs": [
            {
                "epoch": epoch,
                "in_main": in_main,
                "val_loss": by_epoch.get(epoch, {}).get("val_loss"),
                "val_bits_per_byte": by_epoch.get(epoch, {}).get("val_bits_per_byte"),
            }
            for epoch, in_main in epochs.items()
        ],
    }


def _parameters(run: Run) -> int | None:
    """Counts the parameters of a run of an earlier version; None without a checkpoint."""
    paths = checkpoint_paths(run.checkpoints_folder)
    return count_parameters(paths[-1]) if paths else None


def _without_nan(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a record that JSON can represent: a browser refuses the numbers nan and infinity."""
    cleaned: dict[str, Any] = json.loads(json.dumps(record), parse_constant=lambda _: None)
    return cleaned


def _samples(file: Path) -> list[dict[str, Any]]:
    """Returns the samples of every epoch; of many epochs, of about `_MOST_EPOCHS` at equal distances."""
    records = [_without_nan(record) for record in read_records(file)]
    epochs = sorted({record["epoch"] for record in records if isinstance(record.get("epoch"), int)})
    distance = -(-len(epochs) // _MOST_EPOCHS) or 1
    # The last one is always among them.
    shown = set(epochs[::-1][::distance])
    names = ("epoch", "prompt", "text", "source", "reference")
    return [
        {name: record[name] for name in names if name in record}
        for record in records
        if record.get("epoch") in shown
    ]
