"""A folder that appears whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from minigpt.errors import UserError
from minigpt.storage.files import fsync_all


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Gives an unfinished folder to write into, and puts it at `folder` at the end.

    Raises:
      UserError: if there is something at `folder` already, or it cannot be written.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"--output {folder}: is not empty; should be a new or empty directory")
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        fsync_all(unfinished)
        os.replace(unfinished, folder)
    except (OSError, tf.errors.OpError) as error:
        reason = error.message if isinstance(error, tf.errors.OpError) else error.strerror or error
        raise UserError(f"{folder}: cannot be written: {str(reason).splitlines()[0]}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
