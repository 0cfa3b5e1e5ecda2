"""The portable file of a run. Imports TensorFlow only if no checkpoint holds the weights as they are."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import minigpt
from minigpt.portable.writing import WeightsType, write_portable
from minigpt.runs.checkpoints import (
    BrokenCheckpointError,
    best_checkpoint_name,
    checkpoint_paths,
    read_checkpoint,
)
from minigpt.runs.run import Run


def write_run_file(
    run: Run,
    path: Path,
    weights_type: WeightsType = "float32",
    weights: Sequence[np.ndarray] | None = None,
) -> None:
    """Writes the best model of a run as a portable file, whole or not at all.

    Args:
      run: the run.
      path: the file; an existing one is replaced.
      weights_type: how matrices are stored.
      weights: the values of `model.weights` of the best model, if it is loaded already.
    Raises:
      UserError: the run has no model.
      OSError: the file cannot be written.
    """
    write_portable(
        path,
        run.config,
        run.load_tokenizer(),
        _weights(run) if weights is None else weights,
        name=run.path.absolute().name,
        training=training_facts(run),
        weights_type=weights_type,
    )


def _weights(run: Run) -> list[np.ndarray]:
    """Returns the weights of the best model in the order of `model.weights`."""
    arrays = None
    if run.config.training.lora_rank is None and any(checkpoint_paths(run.checkpoints_folder)):
        arrays = _finished_arrays(run) if run.model_file.is_file() else run.best_checkpoint().arrays
    if arrays is None:
        if not run.model_file.is_file():
            run.best_checkpoint()  # Says that there is none, before TensorFlow is imported.
        # Imported through the package, which hides TensorFlow's log.
        weights: list[np.ndarray] = minigpt.load(run).model.get_weights()
        return weights
    return [arrays[name] for name in sorted(arrays) if name.startswith("weights/")]


def _finished_arrays(run: Run) -> dict[str, np.ndarray] | None:
    """Returns the arrays of the best checkpoint; None if it is damaged: model.keras has the weights too."""
    name = _best_name(run)
    try:
        return read_checkpoint(run.checkpoints_folder / name).arrays if name else None
    except BrokenCheckpointError:
        return None


def _best_name(run: Run) -> str | None:
    paths = checkpoint_paths(run.checkpoints_folder)
    return best_checkpoint_name(paths[-1]) if paths else None


def training_facts(run: Run) -> dict[str, Any]:
    """Returns the keys of `minigpt.training`; null for what is not known."""
    facts: dict[str, Any] = dict.fromkeys(("step", "epoch", "val_loss", "val_bits_per_byte"))
    epoch = re.search(r"-epoch-(\d+)$", _best_name(run) or "")
    for record in read_records(run.metrics_file):
        if epoch and record.get("epoch") == int(epoch[1]):
            facts = {name: record.get(name) for name in facts}
    fingerprint = run.corpus["fingerprint"] if run.corpus_file.is_file() else None
    return facts | {"text_fingerprint": fingerprint}


def read_records(file: Path) -> list[dict[str, Any]]:
    """Returns the lines of metrics.jsonl; none if it is missing or damaged: they are additional facts."""
    try:
        # Bytes: a string would be split at U+2028 and U+0085 too, which may be in a sample.
        lines = file.read_bytes().splitlines()
        return [record for line in lines if isinstance(record := json.loads(line), dict)]
    except (OSError, ValueError, RecursionError):
        return []
