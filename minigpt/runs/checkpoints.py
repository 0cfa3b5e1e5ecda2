"""Checkpoints on disk: whole or not there, and checked before they are used.

    step-00000120/             after so many weight updates
    step-00000160-epoch-4/     the same where an epoch ended, validated and recorded
      state.safetensors        every array
      manifest.json            the rest of the state, and the SHA-256 of both

Only names, arrays and JSON: nothing in a checkpoint can run.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file

from minigpt.storage.files import fsync, read_file, sha256_of
from minigpt.runs.progress import TrainingProgress

FORMAT = 1
STATE, MANIFEST = "state.safetensors", "manifest.json"
_NAME = re.compile(r"step-(\d{8,})(?:-epoch-(\d+))?")
# Of the safetensors format, by numpy's names.
_DTYPES = {
    "float32": "F32",
    "float16": "F16",
    "float64": "F64",
    "int32": "I32",
    "int64": "I64",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
}


class BrokenCheckpointError(Exception):
    """A checkpoint that is not what was written; the argument says why."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was found sound.

    Attributes:
      path: its folder.
      progress: what was given to `write_checkpoint`.
      arrays: the same.
    """

    path: Path
    progress: TrainingProgress
    arrays: dict[str, np.ndarray]


def checkpoint_name(step: int, epoch: int | None = None) -> str:
    """Of the checkpoint after `step` updates; `epoch`, from 1, where that one has ended there."""
    return f"step-{step:08}" + ("" if epoch is None else f"-epoch-{epoch}")


def checkpoint_paths(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first, sound or not."""
    found = []
    for path in folder.glob("step-*"):
        if match := _NAME.fullmatch(path.name):
            found.append((int(match[1]), int(match[2] or 0), path))
    return [path for _, _, path in sorted(found)]


def write_checkpoint(
    folder: Path, name: str, arrays: Mapping[str, np.ndarray], progress: TrainingProgress
) -> Path:
    """Writes `folder/name`; it has that name when all of it is on the disk, not before.

    Args:
      folder: exists.
      name: what has it already is replaced.
      arrays: by name.
      progress: the rest of the state.
    Returns:
      the checkpoint's path.
    Raises:
      OSError: it cannot be written; nothing of it is left, and what was there before stays.
    """
    target = folder / name
    temporary, replaced = (folder / f".{name}.{os.getpid()}.{end}" for end in ("tmp", "old"))
    try:
        temporary.mkdir()
        with (temporary / STATE).open("wb") as file:
            state = _write_arrays(file, arrays)
            file.flush()
            os.fsync(file.fileno())
        content = {"format": FORMAT, "state": state, "progress": progress.model_dump()}
        with (temporary / MANIFEST).open("w", encoding="utf-8") as file:
            file.write(json.dumps(content | {"sha256": _sum_of(content)}, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        fsync(temporary)
        if target.exists():
            # A broken one, which the training went around.
            target.rename(replaced)
        temporary.rename(target)
        fsync(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)
    return target


def read_checkpoint(path: Path) -> Checkpoint:
    """Opens a checkpoint and checks every byte of it.

    Raises:
      BrokenCheckpointError: it is not what was written.
    """
    progress, state = _read_manifest(path)
    file = path / STATE
    try:
        if not file.is_file():
            raise BrokenCheckpointError(f"{STATE} is not a file")
        if file.stat().st_size != state["bytes"]:
            raise BrokenCheckpointError(
                f"{STATE} has {file.stat().st_size:,} bytes; should have {state['bytes']:,}"
            )
        if sha256_of(file) != state["sha256"]:
            raise BrokenCheckpointError(f"{STATE} is not what its SHA-256 says")
        return Checkpoint(path, progress, load_file(file))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BrokenCheckpointError(f"{STATE}: {reason}") from None
    except (AttributeError, KeyError, TypeError, ValueError):  # Of a dtype that numpy has not.
        raise BrokenCheckpointError(f"{STATE} is not as it is written") from None


def newest_checkpoint(
    folder: Path, report: Callable[[str], None] = lambda line: None
) -> Checkpoint | None:
    """The newest checkpoint that is sound; None if none is.

    Args:
      report: gets a line about every broken one on the way.
    """
    for path in reversed(checkpoint_paths(folder)):
        try:
            return read_checkpoint(path)
        except BrokenCheckpointError as broken:
            report(f"{path}: broken and left out: {broken}")
    return None


def best_of(path: Path) -> str | None:
    """The name of the checkpoint that this one calls the best; None if it does not, or cannot be read."""
    try:
        best = _read_manifest(path)[0].best
    except BrokenCheckpointError:
        return None
    return best.checkpoint if best else None


def remove_checkpoints(folder: Path, keep: Collection[str]) -> None:
    """Removes all checkpoints but those whose names are in `keep`, and what killed processes left.

    Only who holds the run's lock may do that.
    """
    for path in checkpoint_paths(folder):
        if path.name not in keep:
            # Under a name that is no checkpoint's: half of one is never seen.
            path.rename(folder / f".{path.name}.{os.getpid()}.old")
    for path in folder.glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def _read_manifest(path: Path) -> tuple[TrainingProgress, dict[str, Any]]:
    """And size and sum of the state."""
    try:
        content = json.loads(read_file(path / MANIFEST))
        right = content.pop("sha256")
    except OSError as error:
        raise BrokenCheckpointError(f"{MANIFEST}: {error.strerror or error}") from None
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise BrokenCheckpointError(f"{MANIFEST} is cut off or damaged") from None
    if _sum_of(content) != right:
        raise BrokenCheckpointError(f"{MANIFEST} is not what its SHA-256 says")
    if content.get("format") != FORMAT:
        raise BrokenCheckpointError(
            f"{MANIFEST} has format {content.get('format')}; should be {FORMAT}"
        )
    try:
        state = {"bytes": int(content["state"]["bytes"]), "sha256": content["state"]["sha256"]}
        return TrainingProgress.model_validate(content["progress"]), state
    except ValidationError as error:
        what = ".".join(map(str, error.errors()[0]["loc"]))
        raise BrokenCheckpointError(f"{MANIFEST}: {what} is not as it is written") from None
    except (KeyError, TypeError, ValueError, OverflowError):
        raise BrokenCheckpointError(f"{MANIFEST} is not as it is written") from None


def _sum_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _write_arrays(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Writes the safetensors format, array by array: no second copy of the state is ever in memory.

    Returns:
      size and SHA-256.
    """
    header, end = {}, 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    digest = hashlib.sha256(head)
    file.write(head)
    for array in arrays.values():
        plain = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        file.write(plain)
        digest.update(plain)
    return {"bytes": len(head) + end, "sha256": digest.hexdigest()}
