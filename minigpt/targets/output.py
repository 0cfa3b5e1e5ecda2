"""The file or folder that an export writes, whole or not at all. Imports no TensorFlow."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from minigpt.errors import ArgumentProblem, UserError, write_problem
from minigpt.storage.atomic import atomic_file, atomic_folder


def check_output(output: Path, is_folder: bool) -> None:
    """Checks that an export would replace nothing.

    Raises:
      UserError: `output` exists, and is not an empty folder if `is_folder`.
    """
    if not output.exists() or (is_folder and output.is_dir() and not any(output.iterdir())):
        return
    problem = "exists; should be a new file"
    if is_folder:
        state = "is not empty" if output.is_dir() else "is a file"
        problem = f"{state}; should be a new or empty directory"
    raise UserError(ArgumentProblem("output", output, problem))


@contextmanager
def output_folder(output: Path) -> Iterator[Path]:
    """Yields an empty folder that becomes `output` when the block ends without an exception.

    Raises:
      UserError: `output` is not empty, or cannot be written.
    """
    with _reported(output):
        check_output(output, is_folder=True)
        with _parents_of(output), atomic_folder(output) as folder:
            yield folder


@contextmanager
def output_file(output: Path) -> Iterator[Path]:
    """Yields a path for a file that becomes `output` when the block ends without an exception.

    Raises:
      UserError: `output` exists, or cannot be written.
    """
    with _reported(output):
        check_output(output, is_folder=False)
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
    except Exception as error:
        # TensorFlow has exceptions of its own for files.
        if not (isinstance(error, OSError) or type(error).__module__.startswith("tensorflow")):
            raise
        problem = f"cannot be written: {write_problem(error)}"
        raise UserError(ArgumentProblem("output", output, problem)) from None
