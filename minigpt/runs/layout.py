"""The names in a run directory: its path, its checkpoints, its portable files.

    step-00000120, step-00000160-epoch-4    checkpoints
    model.gguf                              the best model as a portable file
    snapshots/step-00000030.gguf            the weights after an update, as a portable file

Imports little: `minigpt sample` begins with it.
"""

import os
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from minigpt.errors import ArgumentProblem, UserError
from minigpt.storage.atomic import remove_abandoned
from minigpt.storage.files import bundled

BASES = bundled("data/base")
# The key of the checksum of a portable file, and the type of its value, uint32.
_CHECKSUM = b"minigpt.crc32" + (4).to_bytes(4, "little")


def check_run(path: Path, argument: str = "run", any_model: bool = False) -> None:
    """Raises a `UserError`, which names the argument, if there is no run directory at `path`.

    `any_model`: whether the argument can also be a portable file or the name of a base.
    """
    problem = "contains no config.toml"
    try:
        if (path / "config.toml").is_file():
            return
        if str(path) in bases() and not any_model:
            problem = "is a base, without a run"
        elif not path.is_dir():
            problem = "is a file" if path.is_file() else "does not exist"
    except OSError as error:
        problem = error.strerror or str(error)
    expected = "expected a run directory"
    if any_model:
        names = ", ".join(bases()) or "none is installed"
        expected = f"expected a base ({names}), a run directory or a portable file (.gguf)"
    raise UserError(ArgumentProblem(argument, path, f"{problem}; {expected}"))


def bases() -> dict[str, Path]:
    """Returns the name and the portable file of each base model of the package."""
    return {path.stem: path for path in sorted(BASES.glob("*.gguf"))}


def model_path(model: str | Path) -> Path:
    """Returns the path of a model: of a run, of a file, or of the base with this name."""
    return bases().get(str(model)) or Path(model)


def check_new_run(path: Path, argument: str = "run") -> None:
    """Checks that a run can be created at `path`. An existing run is never overwritten.

    Raises:
      UserError: something exists at `path`, or no directory can be created there.
    """
    problem = ""
    try:
        path.lstat()  # Also detects a broken link.
        if not path.is_dir() or any(path.iterdir()):
            has_run = (path / "config.toml").exists()
            problem = "already contains a run" if has_run else "is not an empty directory"
    except (FileNotFoundError, NotADirectoryError):
        parent = next(parent for parent in path.absolute().parents if parent.exists())
        if not (parent.is_dir() and os.access(parent, os.W_OK)):
            problem = f"{parent} is no directory that can be written to"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        problem += "; expected a new or empty directory"
        raise UserError(ArgumentProblem(argument, path, problem))


def run_name(config: Any, text: Sequence[Any]) -> str:
    """Returns the name of a new run: that of its first text, or of its configuration."""
    if text and config is None:
        return re.sub(r"[^\w.-]+", "-", Path(text[0]).stem).strip("-") or "text"
    if isinstance(config, str | Path):
        return Path(config).stem
    return "default" if config is None else "run"


def new_run_path(name: str, folder: Path = Path("runs")) -> Path:
    """Returns the first of `folder/NAME-1`, `folder/NAME-2`, ... that does not exist.

    Another process may create it first; `Run.create_numbered` then takes the next one.
    """
    number = 1
    while os.path.lexists(folder / f"{name}-{number}"):
        number += 1
    return folder / f"{name}-{number}"


def run_error(path: Path, problem: str) -> UserError:
    """Returns the exception for a problem with the argument `run`."""
    return UserError(ArgumentProblem("run", path, problem))


_CHECKPOINT = re.compile(r"step-(\d{8,})(?:-epoch-(\d+))?")


def checkpoint_name(step: int, epoch: int | None = None) -> str:
    """Returns the name of the checkpoint after a weight update, which may be the end of an epoch."""
    return f"step-{step:08}" + ("" if epoch is None else f"-epoch-{epoch}")


def checkpoint_paths(folder: Path) -> list[Path]:
    """Returns the paths of all checkpoints in a folder, damaged ones included, oldest first."""
    matches = ((_CHECKPOINT.fullmatch(path.name), path) for path in folder.glob("step-*"))
    found = sorted((int(match[1]), int(match[2] or 0), path) for match, path in matches if match)
    return [path for _, _, path in found]


def checksum(file: Any) -> tuple[int, int]:
    """Returns where the bytes of a portable file have its checksum, and the right one; 0, 0 without one.

    It is the CRC-32 of the file in which the value of the key is 0.
    """
    place = bytes(file[:1024]).find(_CHECKSUM) + len(_CHECKSUM)
    if place < len(_CHECKSUM) or len(file) < place + 4:
        return 0, 0
    before = zlib.crc32(bytes(4), zlib.crc32(file[:place]))
    return place, zlib.crc32(file[place + 4 :], before)


def matches_checksum(file: Any) -> bool:
    """Returns whether the bytes of a portable file match its checksum; true if it has none."""
    place, right = checksum(file)
    return not place or int.from_bytes(bytes(file[place : place + 4]), "little") == right


PORTABLE_FILE = "model.gguf"
# Larger files are left to TensorFlow. The engine addresses 4 GB; below, it is faster on two cores:
# docs/performance.md.
LARGE_BYTES = 1_500_000_000


def is_newer(file: Path, others: Iterable[Path]) -> bool:
    """Returns whether a file exists and was written no earlier than each of the others."""
    try:
        written = file.stat().st_mtime_ns
        return all(other.stat().st_mtime_ns <= written for other in others)
    except OSError:
        return False


def is_current(run: Path, *others: str) -> bool:
    """Returns whether a run has a portable file that is not older than the files it is made from.

    `others` are the names of other files in it that should not be newer.
    """
    sources = checkpoint_paths(run / "checkpoints") or [run / "model.keras"]
    return is_newer(run / PORTABLE_FILE, [*sources, *(run / other for other in others)])


_SNAPSHOT = re.compile(r"step-(\d{8,18})\.gguf")


def is_snapshot(step: int) -> bool:
    """Returns whether the weights after update `step` are kept: 0, 1, 3, 10, 30, 100, ..."""
    return re.fullmatch("0|[13]0*", str(step)) is not None


def snapshot_name(step: int) -> str:
    return f"step-{step:08}.gguf"


def snapshots(folder: Path) -> dict[int, Path]:
    """Returns the paths of all snapshots in a folder by their step, the first one first."""
    matches = ((_SNAPSHOT.fullmatch(path.name), path) for path in folder.glob("*.gguf"))
    return dict(sorted((int(match[1]), path) for match, path in matches if match))


def remove_later_snapshots(folder: Path, step: int) -> None:
    """Removes the snapshots after a step, and the unfinished files of killed processes.

    The caller holds the run's lock.
    """
    remove_abandoned(folder)
    for later, path in snapshots(folder).items():
        if later > step:
            path.unlink()
