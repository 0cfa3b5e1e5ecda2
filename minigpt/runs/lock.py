"""The lock of a run directory: one process at a time trains in it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from minigpt.runs.layout import run_error

NAME = "lock"
# `is_locked` holds the lock for a moment. `run_lock` and another `is_locked` try again for this long.
_RETRY_SECONDS = 0.5
_LOOK_SECONDS = 0.1
# The directory is read-only, or the lock file is another user's.
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def run_lock(run: Path, if_writable: bool = False) -> Iterator[None]:
    """Keeps other processes from training in a run directory.

    The lock is released when the process ends, however it ends. Its file stays. `filelock` follows no link
    that has this name: in a directory from someone else, a link may lead to any file.

    Args:
      if_writable: whether to go on without a lock if the directory or the lock file cannot be written.
    Raises:
      UserError: another process holds the lock, or it cannot be written.
    """
    lock = FileLock(run / NAME, timeout=_RETRY_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise run_error(
            run, "is being trained by another process; wait for that process or end it"
        ) from None
    except OSError as error:
        if not (if_writable and error.errno in _NOT_WRITABLE):
            raise run_error(run, f"cannot be written: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.release()


def is_locked(run: Path) -> bool:
    """Returns whether a process trains in a run directory, as far as its lock can be tried."""
    file = run / NAME
    # Nothing is created in a directory that is only looked at.
    if file.is_symlink() or not file.is_file():
        return False
    try:
        with FileLock(file, timeout=_LOOK_SECONDS):
            return False
    except Timeout:
        return True
    except OSError:
        return False
