"""Atomic writes: a file or folder appears under its name complete and on the disk, or not at all.

Every writer works in a scratch folder in the directory of its target and renames the result at the end,
so a crash at any moment leaves either the old content or the new one under the name. The scratch folder
is removed on every exit. Its lock is released when a process is killed, and the next writer in the same
directory removes it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from minigpt.storage.files import fsync, fsync_all

_PREFIX, _SUFFIX = ".minigpt-", ".tmp"
# In a scratch folder. Not a name that anything is written under.
_LOCK = ".lock"


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Creates a hidden folder for unfinished files in a directory, and removes it at the end.

    Scratch folders of killed processes in the same directory are removed first.

    Yields:
      The folder, which holds a hidden lock file.
    Raises:
      OSError: the folder cannot be created or locked.
    """
    from filelock import FileLock, Timeout  # Not needed to read, and takes time to import.

    remove_abandoned(parent)
    while True:
        folder = Path(tempfile.mkdtemp(_SUFFIX, _PREFIX, parent))
        lock = FileLock(folder / _LOCK, timeout=0)
        try:
            lock.acquire()
            yield folder
            return
        except (Timeout, FileNotFoundError, FileExistsError):
            # Another process may find the folder before it is locked, and remove it as abandoned.
            if lock.is_locked:
                raise
        finally:
            lock.release()
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Creates or replaces a file when the block ends without an exception. Its directory exists.

    Yields:
      A path with the same file name, to write to.
    Raises:
      OSError: the file cannot be written; the old one is unchanged.
    """
    with scratch_folder(path.parent) as scratch:
        unfinished = scratch / path.name
        yield unfinished
        fsync(unfinished)
        os.replace(unfinished, path)
        fsync(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Creates or replaces a file; raises OSError as `atomic_file`."""
    with atomic_file(path) as unfinished:
        unfinished.write_bytes(data)


@contextmanager
def atomic_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """Creates a folder when the block ends without an exception.

    Args:
      path: the folder; its parent exists.
      replace: whether to replace what exists at `path`. A crash between the two renames leaves nothing
        there. If false, `path` should not exist or be an empty folder.
    Yields:
      An empty folder with the same name, to write to.
    Raises:
      OSError: the folder cannot be written, or `path` exists and `replace` is false; whatever exists
        there is unchanged.
    """
    with scratch_folder(path.parent) as scratch:
        unfinished = scratch / path.name
        unfinished.mkdir()
        yield unfinished
        fsync_all(unfinished)
        replaced = scratch / "replaced" / path.name
        if replace and os.path.lexists(path):
            replaced.parent.mkdir()
            path.rename(replaced)
        try:
            unfinished.rename(path)
        except OSError:
            if os.path.lexists(replaced):
                replaced.rename(path)
            raise
        fsync(path.parent)


def remove_abandoned(parent: Path) -> None:
    """Removes the scratch folders of killed processes from a directory."""
    folders = [path for path in parent.glob(f"{_PREFIX}*{_SUFFIX}") if not path.is_symlink()]
    if not folders:
        return
    from filelock import FileLock, Timeout

    for folder in folders:
        # A process that works in it holds the lock. OSError: it has just removed the folder.
        with suppress(Timeout, OSError), FileLock(folder / _LOCK, timeout=0):
            shutil.rmtree(folder, ignore_errors=True)
