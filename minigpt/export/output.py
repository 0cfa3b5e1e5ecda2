"""The file or folder that an export writes, whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import tensorflow as tf

from minigpt.errors import ArgumentProblem, UserError, write_problem
from minigpt.storage.atomic import atomic_file, atomic_folder


@contextmanager
def output_folder(output: Path) -> Iterator[Path]:
    """Yields an empty folder that becomes `output` when the block ends without an exception.

    Raises:
      UserError: `output` is not empty, or cannot be written.
    """
    with _reported(output):
        if output.exists() and not (output.is_dir() and not any(output.iterdir())):
            state = "is not empty" if output.is_dir() else "is a file"
            problem = f"{state}; should be a new or empty directory"
            raise UserError(ArgumentProblem("output", output, problem))
        with _parents_of(output), atomic_folder(output) as folder:
            yield folder


@contextmanager
def output_file(output: Path) -> Iterator[Path]:
    """Yields a path for a file that becomes `output` when the block ends without an exception.

    Raises:
      UserError: `output` exists, or cannot be written.
    """
    with _reported(output):
        if output.exists():
            raise UserError(ArgumentProblem("output", output, "exists; should be a new file"))
        with _parents_of(output), atomic_file(output) as unfinished:
            yield unfinished


@contextmanager
def _parents_of(output: Path) -> Iterator[None]:
    """Creates the parents of a path, and removes them after an exception."""
    missing = [folder for folder in output.parents if not folder.exists()]
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # Another process may have written there.
                folder.rmdir()
        raise


@contextmanager
def _reported(output: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        problem = f"cannot be written: {write_problem(error)}"
        raise UserError(ArgumentProblem("output", output, problem)) from None
