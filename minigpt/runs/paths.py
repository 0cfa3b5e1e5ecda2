"""Checks of run directories' paths, before TensorFlow is imported and anything is computed."""

import os
import shlex
from pathlib import Path

from minigpt.errors import ArgumentProblem, UserError


def check_run(path: Path, argument: str = "run") -> None:
    """Checks that there is a run directory at `path`.

    Args:
      path: the path.
      argument: the argument or setting to name in the message.
    Raises:
      UserError: there is none.
    """
    try:
        exists = (path / "config.toml").is_file()
    except OSError as error:
        problem = error.strerror or str(error)
        raise UserError(ArgumentProblem(argument, path, problem)) from None
    if not exists:
        problem = "is a file" if path.is_file() else "does not exist"
        problem = "contains no config.toml" if path.is_dir() else problem
        problem += "; expected a run directory written by `minigpt train`"
        if path.suffix == ".gguf" and path.is_file():
            command = f"minigpt sample {shlex.quote(str(path))}"
            problem += f"; a portable file is opened by minigpt.load_portable, or by: {command}"
        raise UserError(ArgumentProblem(argument, path, problem))


def check_new_run(path: Path) -> None:
    """Checks that a run can be created at `path`. An existing run is never overwritten.

    Raises:
      UserError: something exists at `path`, or no directory can be created there.
    """
    try:
        problem = _problem_with_existing(path)
    except (FileNotFoundError, NotADirectoryError):
        parent = next(parent for parent in path.absolute().parents if parent.exists())
        if parent.is_dir() and os.access(parent, os.W_OK):
            return
        problem = f"{parent} {'cannot be written to' if parent.is_dir() else 'is a file'}"
        raise run_error(path, f"{problem}; expected a directory that can be written to") from None
    except OSError as error:
        raise run_error(path, error.strerror or str(error)) from None
    if problem:
        raise run_error(path, f"{problem}; expected a new or empty directory")


def _problem_with_existing(path: Path) -> str | None:
    path.lstat()  # Also detects a broken link.
    if not path.is_dir():
        return "is a file"
    if (path / "config.toml").exists():
        return "already contains a run"
    return "is not empty" if any(path.iterdir()) else None


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
