"""Where a run is or may be put; by itself, so that a wrong place is refused before TensorFlow is there."""

import os
from pathlib import Path

from minigpt.errors import UserError


def check_run(path: Path) -> None:
    """Raises a `UserError` if there is no run at `path`."""
    try:
        found = (path / "config.toml").is_file()
    except OSError as error:
        raise UserError(f"RUN {path}: {error.strerror or error}") from None
    if not found:
        what = "is a file" if path.is_file() else "does not exist"
        what = "holds no config.toml" if path.is_dir() else what
        raise UserError(f"RUN {path}: {what}; should be a run directory that `minigpt train` made")


def refuse_taken(path: Path) -> None:
    """Raises a `UserError` if `path` holds anything, or cannot be made: a run is never overwritten."""
    try:
        # The longest name that is made from the run's.
        (path.parent / f".{path.name}.{os.getpid()}.tmp.keras").exists()
        if path.is_dir() and not any(path.iterdir()):
            return
    except OSError as error:
        raise UserError(f"--run {path}: {error.strerror or error}") from None
    if path.exists():
        what = "is not empty" if path.is_dir() else "is a file"
        what = "already holds a run" if (path / "config.toml").exists() else what
        raise UserError(f"--run {path}: {what}; should be a new or empty directory")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        what = "cannot be written to" if above.is_dir() else "is a file"
        raise UserError(f"--run {path}: {above} {what}; should be a directory to write in")


def new_run_path(name: str, folder: Path = Path("runs")) -> Path:
    """`runs/NAME-1`, or the first number that is free."""
    number = 1
    while (folder / f"{name}-{number}").exists():
        number += 1
    return folder / f"{name}-{number}"
