"""The portable file of a run. Imports TensorFlow only for models without a usable checkpoint."""

import json
from pathlib import Path
from typing import Any

import numpy as np


from minigpt.portable.writing import WeightsType, write_portable
from minigpt.runs.run import Run


def write_run_file(run: Run, path: Path, weights_type: WeightsType = "float32") -> None:
    """Writes the best model of a run as a portable file, whole or not at all.

    Args:
      run: the run.
      path: the file; an existing one is replaced.
      weights_type: how matrices are stored.
    Raises:
      UserError: the run has no model.
      OSError: the file cannot be written.
    """
    weights, epoch = _weights(run)
    write_portable(
        path,
        run.config,
        run.load_tokenizer(),
        weights,
        name=run.path.absolute().name,
        training=_training_facts(run, epoch),
        weights_type=weights_type,
    )


def _weights(run: Run) -> tuple[list[np.ndarray], int | None]:
    """Returns the weights of the best model in the order of `model.weights`, and the number of its epoch."""
    has_factors = run.config.training.lora_rank is not None
    if has_factors or not any(run.checkpoints_folder.glob("step-*")):
        return [np.asarray(weight) for weight in run.load_model().get_weights()], None
    checkpoint = run.best_checkpoint()
    names = sorted(name for name in checkpoint.arrays if name.startswith("weights/"))
    progress = checkpoint.progress
    # A checkpoint within an epoch belongs to no line of metrics.jsonl.
    epoch = progress.epoch if "-epoch-" in checkpoint.path.name else None
    return [checkpoint.arrays[name] for name in names], epoch


def _training_facts(run: Run, epoch: int | None) -> dict[str, Any]:
    """Returns the keys of `minigpt.training`; null for what is not known."""
    facts: dict[str, Any] = dict.fromkeys(("step", "epoch", "val_loss", "val_bits_per_byte"))
    for record in _records(run.metrics_file):
        if record.get("epoch") == epoch:
            facts = {name: record.get(name) for name in facts}
    facts["text_fingerprint"] = None
    if run.corpus_file.is_file():
        facts["text_fingerprint"] = run.corpus["fingerprint"]
    return facts


def _records(file: Path) -> list[dict[str, Any]]:
    """Returns the lines of metrics.jsonl; none if it is missing or damaged: they are additional facts."""
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return []


def portable_file(run: Run) -> Path:
    """Returns the path of a run's portable file, which may not exist."""
    return run.path / "model.gguf"


def is_current(run: Run) -> bool:
    """Returns whether the portable file exists and is not older than the newest checkpoint and the model."""
    try:
        written = portable_file(run).stat().st_mtime_ns
    except OSError:
        return False
    newer = [run.model_file, *run.checkpoints_folder.glob("step-*")]
    return all(path.stat().st_mtime_ns <= written for path in newer if path.exists())
