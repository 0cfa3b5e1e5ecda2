"""The facts about a model that its page shows."""

import math
from pathlib import Path
from typing import Any

import gguf

import minigpt
from minigpt.errors import UserError
from minigpt.pages.memorization_values import memorization_values
from minigpt.runs.analysis import read_analysis
from minigpt.runs.checkpoints import count_parameters
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.records import numbers, read_lines
from minigpt.runs.run import Run
from minigpt.targets.gguf.loading import load_portable
from minigpt.targets.gguf.run_file import best_facts
from minigpt.targets.targets import WeightsType

# Epochs whose samples are shown.
_MOST_EPOCHS = 100


def model_facts(
    run: Run, model: Path, weights: WeightsType, epochs: dict[int, bool]
) -> dict[str, Any]:
    """Returns the facts as JSON values; null for what is not known.

    Args:
      run: the run. Its records may be damaged, or come from somebody else.
      model: its portable file.
      weights: how the page stores the matrices of the model.
      epochs: the epochs whose weights are in the page: whether they are those of the model itself.
    """
    config, tokenizer = run.config, run.load_tokenizer()
    recorded, best = run.facts, best_facts(run)
    metrics = [numbers(record, record) for record in _of_epochs(run.metrics_file)]
    by_epoch = {record["epoch"]: record for record in metrics}
    return {
        "title": run.path.absolute().name,
        "kind": config.model.kind,
        "version": minigpt.__version__,
        "weights": weights,
        "parameters": recorded.get("parameters") or _parameters(run, model),
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
        **numbers(best, ("step", "epoch", "val_loss", "val_bits_per_byte")),
        "metrics": metrics,
        "baselines": recorded.get("baselines"),
        "samples": _samples(run.samples_file),
        "memorization": memorization_values(read_analysis(run).get("memorization")).get("best"),
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


def file_facts(file: Path) -> dict[str, Any]:
    """Returns the facts about a portable file without its run.

    Raises:
      UserError: the file cannot be opened, or its configuration is damaged.
    """
    model = load_portable(file)
    config = {name: model.config.get(name) for name in ("model", "sampling")}
    if not all(isinstance(section, dict) for section in config.values()):
        raise UserError(f"{file}: minigpt.config: has no model or sampling settings")
    return {
        "title": file.stem,
        "kind": model.kind,
        "version": minigpt.__version__,
        "weights": model.weights,
        "parameters": _file_parameters(file),
        "tokenizer": {
            "kind": model.tokenizer.kind,
            "vocab_size": model.tokenizer.vocab_size,
            "lowercase": model.tokenizer.lowercase,
        },
        **config,
        "text": None,
        **numbers(model.training, ("step", "epoch", "val_loss", "val_bits_per_byte")),
        "metrics": [],
        "baselines": None,
        "samples": [],
        "memorization": None,
        "command": None,
        "epochs": [],
    }


def _parameters(run: Run, model: Path) -> int:
    """Counts the parameters of a run without recorded facts."""
    paths = checkpoint_paths(run.checkpoints_folder)
    counted = count_parameters(paths[-1]) if paths else None
    return counted or _file_parameters(model)


def _file_parameters(file: Path) -> int:
    return sum(math.prod(map(int, tensor.shape)) for tensor in gguf.GGUFReader(file).tensors)


def _of_epochs(file: Path) -> list[dict[str, Any]]:
    """Returns the records of a file that name an epoch."""
    return [record for record in read_lines(file) if type(record.get("epoch")) is int]


def _samples(file: Path) -> list[dict[str, Any]]:
    """Returns the samples of every epoch, or of about `_MOST_EPOCHS` at equal distances."""
    records = _of_epochs(file)
    epochs = sorted({record["epoch"] for record in records})
    distance = -(-len(epochs) // _MOST_EPOCHS) or 1
    # The last one is always among them.
    shown = set(epochs[::-1][::distance])
    return [
        {"epoch": record["epoch"], **_texts(record)}
        for record in records
        if record["epoch"] in shown and isinstance(record.get("text"), str)
    ]


def _texts(record: dict[str, Any]) -> dict[str, str]:
    names = ("prompt", "text", "source", "reference")
    return {name: record[name] for name in names if isinstance(record.get(name), str)}
