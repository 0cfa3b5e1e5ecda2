"""Checkpoints on disk: complete or absent, and verified before use.

    step-00000120/             after this number of weight updates
    step-00000160-epoch-4/     the same, at the end of an epoch
      state.safetensors        every array
      manifest.json            the rest of the state, and the SHA-256 of both files

A checkpoint contains names, arrays and JSON only. Reading one runs no code from it.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from minigpt.notices import LOGGER
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.records import Count
from minigpt.storage.atomic import atomic_folder, remove_abandoned, scratch_folder
from minigpt.storage.files import read_file, sha256_of

FORMAT = 1
STATE, MANIFEST = "state.safetensors", "manifest.json"


# The names of a record are the keys of the manifest and part of its format.
class _Record(BaseModel):
    # A manifest may come from someone else: unknown keys and wrong types are rejected.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Best(_Record):
    """The best validated state: its loss in nats per token, epoch (0: before training), and checkpoint."""

    val_loss: float
    epoch: Count
    checkpoint: Annotated[str, Field(pattern=r"^step-\d{8,}(-epoch-\d+)?$")]


class ClockState(_Record):
    """The state of `Clock`.

    Attributes:
      seconds: since training began, in all processes.
      epoch_step: the number of weight updates before this epoch.
      beside_a_step: seconds per weight update spent on everything else, in the last epoch.
    """

    batches: Count
    seconds: Annotated[float, Field(ge=0)]
    epoch_step: Count
    beside_a_step: Annotated[float, Field(ge=0)]


class TrainingProgress(_Record):
    """The state of training between two weight updates.

    Attributes:
      epoch: epochs that have ended and are validated and recorded.
      batch: batches of the next epoch that are done.
      given_plan: the step limits in the user's configuration.
      plan: the step limits in effect, after changes by the time limit.
      best: the best state so far; None before the first validation.
      epochs_since_best: validations since the best one.
      config: every setting, as `config.config_record` returns it.
    """

    step: Count
    epoch: Count
    batch: Count
    clock: ClockState
    given_plan: list[list[int]]
    plan: list[list[int]]
    best: Best | None
    epochs_since_best: Count
    config: dict[str, Any]


class _State(_Record):
    bytes: Count
    sha256: str


class _Manifest(_Record):
    format: Literal[1]
    state: _State
    progress: TrainingProgress


class BrokenCheckpointError(Exception):
    """A checkpoint is damaged; the argument says how."""


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint: its folder, and the record and the arrays that were written."""

    path: Path
    progress: TrainingProgress
    arrays: dict[str, np.ndarray]

    @property
    def weights(self) -> list[np.ndarray]:
        """The values of `model.weights`, LoRA factors included, in their order."""
        return [self.arrays[name] for name in sorted(self.arrays) if name.startswith("weights/")]


def write_checkpoint(
    folder: Path, name: str, arrays: Mapping[str, np.ndarray], progress: TrainingProgress
) -> Path:
    """Writes the checkpoint `folder/name`, which appears when it is complete and on the disk.

    A checkpoint with this name is replaced. Returns its path.

    Raises:
      OSError: the checkpoint cannot be written; existing ones are unchanged.
    """
    with atomic_folder(folder / name, replace=True) as unfinished:
        file = unfinished / STATE
        write_tensors(file, arrays)
        state = {"bytes": file.stat().st_size, "sha256": sha256_of(file)}
        content = {"format": FORMAT, "state": state, "progress": progress.model_dump()}
        manifest = json.dumps(content | {"sha256": _sha256_of_content(content)}, indent=1) + "\n"
        (unfinished / MANIFEST).write_text(manifest, encoding="utf-8")
    return folder / name


def read_checkpoint(path: Path) -> Checkpoint:
    """Reads a checkpoint and verifies every byte of it.

    Raises:
      BrokenCheckpointError: the checkpoint is damaged.
    """
    progress, state = _read_manifest(path)
    file = path / STATE
    try:
        # The size first: it tells of a truncated file at once.
        if file.stat().st_size != state.bytes or sha256_of(file) != state.sha256:
            raise BrokenCheckpointError(f"{STATE} does not match its SHA-256")
        return Checkpoint(path, progress, load_file(file))
    # AttributeError and others: a dtype that NumPy does not have.
    except (OSError, SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise BrokenCheckpointError(f"{STATE}: {error}") from None


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """Returns the newest undamaged checkpoint or None; logs a warning for each damaged one."""
    for path in reversed(checkpoint_paths(folder)):
        if checkpoint := _read_undamaged(path):
            return checkpoint
    return None


def best_checkpoint(folder: Path) -> Checkpoint | None:
    """Returns the best checkpoint by validation loss, or else the newest undamaged one; None without one.

    Logs a warning for each damaged one, and for the one that is used instead.
    """
    paths, checkpoint = checkpoint_paths(folder), newest_checkpoint(folder)
    if checkpoint is None:
        return None
    is_replacement = checkpoint.path != paths[-1]
    best = checkpoint.progress.best
    if best and best.checkpoint != checkpoint.path.name:
        read = _read_undamaged(folder / best.checkpoint)
        checkpoint, is_replacement = read or checkpoint, is_replacement or read is None
    if is_replacement:
        LOGGER.warning("%s: used instead", checkpoint.path)
    return checkpoint


def _read_undamaged(path: Path) -> Checkpoint | None:
    """Reads a checkpoint; logs a warning and returns None if it is damaged."""
    try:
        return read_checkpoint(path)
    except BrokenCheckpointError as error:
        LOGGER.warning("%s: was damaged and is ignored: %s", path, error)
        return None


def best_checkpoint_name(path: Path) -> str | None:
    """Returns the name of the best checkpoint according to the one at `path`; None if it names none."""
    with suppress(BrokenCheckpointError):
        if best := _read_manifest(path)[0].best:
            return best.checkpoint
    return None


def best_state(folder: Path) -> dict[str, str] | None:
    """Identifies the weights of the best model by validation loss, without reading arrays.

    Returns:
      "name" of the checkpoint that `best_checkpoint` reads, and "sha256" of its arrays; None if there is
      no checkpoint.
    """
    for path in reversed(checkpoint_paths(folder)):
        try:
            progress, state = _read_manifest(path)
        except BrokenCheckpointError:
            continue
        if progress.best:
            with suppress(BrokenCheckpointError):
                path = folder / progress.best.checkpoint
                state = _read_manifest(path)[1]
        return {"name": path.name, "sha256": state.sha256}
    return None


def remove_checkpoints(folder: Path, keep: Collection[str]) -> None:
    """Removes checkpoints other than those named, and the unfinished files of killed processes.

    The caller holds the run's lock.
    """
    remove_abandoned(folder)
    for path in checkpoint_paths(folder):
        if path.name not in keep:
            # Renamed first: an incomplete checkpoint is never visible.
            with scratch_folder(folder) as scratch:
                path.rename(scratch / path.name)


def _read_manifest(path: Path) -> tuple[TrainingProgress, _State]:
    """Returns the record, and the size and SHA-256 of the state."""
    try:
        content = json.loads(read_file(path / MANIFEST))
        if content.pop("sha256") != _sha256_of_content(content):
            raise ValueError("does not match its SHA-256")
        manifest = _Manifest.model_validate(content)
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else "damaged"
        raise BrokenCheckpointError(f"{MANIFEST}: {reason}") from None
    return manifest.progress, manifest.state


def _sha256_of_content(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_tensors(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a safetensors file, with strings in its header. Contiguous arrays are not copied in memory.

    Raises:
      OSError: the file cannot be written.
    """
    # The library reads each array's memory from its first byte.
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    # The library replaces the file with one that only its owner can read.
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(contiguous, path, dict(metadata) if metadata else None)
    except SafetensorError as error:
        if match := re.search(r"os error (\d+)", str(error)):
            number = int(match[1])
            raise OSError(number, os.strerror(number), str(path)) from None
        raise
    path.chmod(mode)
