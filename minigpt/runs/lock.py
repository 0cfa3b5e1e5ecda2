"""One process at a time trains in a run directory."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from minigpt.errors import UserError

NAME = "lock"


@contextmanager
def run_lock(run: Path) -> Iterator[None]:
    """Keeps other processes from training in a run directory, until the end or this process' death.

    The kernel holds the lock, not the file: a killed process leaves nothing that has to be cleared
    away. The file stays, because who removed it could remove another process' lock.

    Raises:
      UserError: another process has it, or the directory cannot be written.
    """
    try:
        # Not emptied when it is opened: it may name the process that has it. And no link, which in a
        # stranger's run may lead anywhere.
        handle = os.open(run / NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UserError(f"RUN {run}: cannot be written: {error.strerror or error}") from None
    try:
        _lock(run, handle)
        yield
    finally:
        os.close(handle)


def _lock(run: Path, handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
        raise UserError(
            f"RUN {run}: is being trained by process {owner}; should be left to it, or that be "
            "ended first"
        ) from None
    except OSError as error:
        raise UserError(f"{run / NAME}: cannot be locked: {error.strerror or error}") from None
    # For whoever is refused. On a full disk the lock is as good without it.
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
