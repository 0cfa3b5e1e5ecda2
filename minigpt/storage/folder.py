"""A folder that appears whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from minigpt.errors import UserError
from minigpt.storage.atomic import atomic_folder


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Gives an unfinished folder to write into, and puts it at `folder` at the end.

    Raises:
      UserError: if there is something at `folder` already, or it cannot be written.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"--output {folder}: is not empty; should be a new or empty directory")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder) as unfinished:
            yield unfinished
    except (OSError, tf.errors.OpError) as error:
        reason = error.message if isinstance(error, tf.errors.OpError) else error.strerror or error
        raise UserError(f"{folder}: cannot be written: {str(reason).splitlines()[0]}") from None
