"""The lock of a run directory: one process at a time trains in it."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from minigpt.errors import UserError
from minigpt.runs.layout import run_error

NAME = "lock"
# `is_locked` holds the lock for less than this.
_RETRY_SECONDS = 0.05


@contextmanager
def run_lock(run: Path, if_writable: bool = False) -> Iterator[None]:
    """Keeps other processes from training in a run directory.

    The kernel holds the lock and releases it when the process ends, however it ends. The file is never
    removed: a process that removes it could remove the lock of another process.

    Args:
      run: the run directory.
      if_writable: whether a directory that cannot be written is left without a lock.
    Raises:
      UserError: another process holds the lock, or the directory cannot be written.
    """
    try:
        # Not truncated: the file may name the process that holds the lock. O_NOFOLLOW: in a directory
        # from someone else, a link may lead to any file.
        handle = os.open(run / NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        is_refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        if not (if_writable and is_refused):
            raise run_error(run, f"cannot be written: {error.strerror or error}") from None
        handle = None
    if handle is None:
        if is_locked(run):
            raise run_error(run, "is being trained by a process that can write to it")
        yield
        return
    try:
        _acquire(run, handle)
        yield
    finally:
        os.close(handle)


def is_locked(run: Path) -> bool:
    """Returns whether a process trains in a run directory, as far as the lock file can be read."""
    try:
        handle = os.open(run / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # A shared lock: several processes may ask at the same time. Closing the file releases it.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def _acquire(run: Path, handle: int) -> None:
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_RETRY_SECONDS)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
        raise run_error(
            run, f"is being trained by process {owner}; wait for that process or end it"
        ) from None
    except OSError as error:
        raise UserError(f"{run / NAME}: cannot be locked: {error.strerror or error}") from None
    # For the message to other processes. The lock works without it, for example on a full disk.
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
