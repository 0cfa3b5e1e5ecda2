"""One process at a time trains in a run directory."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
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
        # Not emptied when it is opened: it may name the process that has it.
        file = os.fdopen(os.open(run / NAME, os.O_RDWR | os.O_CREAT, 0o644), "r+")
    except OSError as error:
        raise UserError(f"RUN {run}: cannot be written: {error.strerror or error}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = file.read(20).strip() or "unknown"
            raise UserError(
                f"RUN {run}: is being trained by process {owner}; should be left to it, or that be "
                "ended first"
            ) from None
        except OSError as error:
            raise UserError(f"{run / NAME}: cannot be locked: {error.strerror or error}") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
