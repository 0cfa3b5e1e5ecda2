"""The portable files of a run: of its best model and of its epochs.

Imports TensorFlow only if no checkpoint holds the weights of the best model as they are.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import minigpt
from minigpt.runs import checkpoints
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.records import numbers, read_lines
from minigpt.runs.run import Run
from minigpt.targets.gguf.writing import write_portable
from minigpt.targets.targets import WeightsType


def write_run_file(
    run: Run,
    path: Path,
    weights_type: WeightsType = "float32",
    weights: Sequence[np.ndarray] | None = None,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Writes a model of a run as a portable file, whole or not at all. An existing file is replaced.

    Args:
      weights_type: how matrices are stored.
      weights: the values of `model.weights`; None: those of the best model, which is read.
      record: `epoch`, `step`, `val_loss` and `val_bits_per_byte` of the weights, as far as they are known;
        None: those of the best model.
    """
    write_portable(
        path,
        run.config,
        run.load_tokenizer(),
        _weights(run) if weights is None else weights,
        name=run.path.absolute().name,
        training=best_facts(run) if record is None else _training_facts(run, record),
        weights_type=weights_type,
    )


def write_checkpoint_file(run: Run, path: Path, checkpoint: checkpoints.Checkpoint) -> None:
    """Writes the model of a checkpoint, as `write_run_file`.

    Imports TensorFlow only for a run with `training.lora_rank`.
    """
    if run.config.training.lora_rank is None:
        weights = checkpoint.weights
    else:
        # Through the package, which hides TensorFlow's log.
        _ = minigpt.load
        weights = run.load_model(checkpoint).get_weights()
    record = {"step": checkpoint.progress.step, "epoch": checkpoint.progress.epoch}
    write_run_file(run, path, weights=weights, record=record)


def _weights(run: Run) -> list[np.ndarray]:
    """Returns the weights of the best model in the order of `model.weights`."""
    name = _best_name(run)
    if run.config.training.lora_rank is None and name:
        if not run.model_file.is_file():
            return run.best_checkpoint().weights
        # If the checkpoint is damaged, model.keras has the weights.
        with suppress(checkpoints.BrokenCheckpointError):
            return checkpoints.read_checkpoint(run.checkpoints_folder / name).weights
    if not run.model_file.is_file():
        run.best_checkpoint()  # Says that there is none, before TensorFlow is imported.
    # Imported through the package, which hides TensorFlow's log.
    weights: list[np.ndarray] = minigpt.load(run).model.get_weights()
    return weights


def _best_name(run: Run) -> str | None:
    paths = checkpoint_paths(run.checkpoints_folder)
    return checkpoints.best_checkpoint_name(paths[-1]) if paths else None


def best_facts(run: Run) -> dict[str, Any]:
    """Returns the keys of `minigpt.training` for the best model, from its line of metrics.jsonl."""
    record: Mapping[str, Any] = {}
    if step := re.match(r"step-(\d+)", _best_name(run) or ""):
        lines = [line for line in read_lines(run.metrics_file) if line.get("step") == int(step[1])]
        record = lines[-1] if lines else {}
    return _training_facts(run, record)


def _training_facts(run: Run, record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of `minigpt.training`; null for what is not known or not a finite number."""
    facts = numbers(dict(record), ("step", "epoch", "val_loss", "val_bits_per_byte"))
    fingerprint = run.corpus["fingerprint"] if run.corpus_file.is_file() else None
    return facts | {"text_fingerprint": fingerprint}
