"""The folder that an export writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from minigpt.errors import ArgumentProblem, UserError
from minigpt.storage.atomic import atomic_folder


@contextmanager
def output_folder(output: Path) -> Iterator[Path]:
    """Yields an empty folder that becomes `output` when the block ends without an exception.

    Raises:
      UserError: `output` is not empty, or cannot be written.
    """
    try:
        if output.exists() and not (output.is_dir() and not any(output.iterdir())):
            problem = "is not empty; should be a new or empty directory"
            raise UserError(ArgumentProblem("output", output, problem))
        output.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(output) as folder:
            yield folder
    except (OSError, tf.errors.OpError) as error:
        reason = error.message if isinstance(error, tf.errors.OpError) else error.strerror or error
        problem = f"cannot be written: {str(reason).splitlines()[0]}"
        raise UserError(ArgumentProblem("output", output, problem)) from None
