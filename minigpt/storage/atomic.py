"""Atomic writes: a file or folder appears under its name complete and on the disk, or not at all.

Every writer works in a scratch folder in the directory of its target and renames the result at the end,
so a crash at any moment leaves either the old content or the new one under the name. The scratch folder
is removed on every exit. The kernel releases its lock when a process is killed, and the next writer in
the same directory removes it.
"""

import errno
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from minigpt.storage.files import fsync, fsync_all

_PREFIX, _SUFFIX = ".minigpt-", ".tmp"
UNFINISHED = ".unfinished"
_LOCK = "lock"
# Where locks are not supported, a scratch folder of this age belongs to no running process.
_ABANDONED_SECONDS = 24 * 3600

try:
    import fcntl
except ModuleNotFoundError:
    # Windows has no locks of folders. There, abandoned folders are recognized by their age.
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Creates a hidden folder for unfinished files, and removes it at the end.

    Scratch folders of killed processes in the same directory are removed first.

    Args:
      parent: an existing directory, on the file system of the target.
    Yields:
      The empty folder.
    Raises:
      OSError: the folder cannot be created.
    """
    remove_abandoned(parent)
    folder, lock = _create_locked(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Creates or replaces a file when the block ends without an exception.

    Args:
      path: the file; its directory exists.
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
    """Creates or replaces a file with the given content.

    Raises:
      OSError: the file cannot be written; the old one is unchanged.
    """
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
        _publish(unfinished, path, replace, scratch)


@contextmanager
def resumable_folder(path: Path) -> Iterator[Path]:
    """Creates or continues a folder of unfinished files, which stays if the block ends or is killed.

    Only one process at a time is in the block: a second one waits.

    Args:
      path: the folder that `publish_folder` will create; its parent exists.
    Yields:
      The folder `path`.unfinished.
    Raises:
      OSError: the folder cannot be created.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    lock = _wait_for_lock(unfinished)
    try:
        yield unfinished
    finally:
        if lock is not None:
            os.close(lock)


def publish_folder(unfinished: Path, path: Path, replace: bool = False) -> None:
    """Renames a folder that is complete, in the block of `resumable_folder`.

    Args:
      unfinished: the folder.
      path, replace: as for `atomic_folder`.
    Raises:
      OSError: as for `atomic_folder`.
    """
    remove_abandoned(unfinished)
    (unfinished / _LOCK).unlink(missing_ok=True)
    with scratch_folder(path.parent) as scratch:
        _publish(unfinished, path, replace, scratch)


def _publish(unfinished: Path, path: Path, replace: bool, scratch: Path) -> None:
    replaced = scratch / "replaced" / path.name
    fsync_all(unfinished)
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
    for folder in parent.glob(f"{_PREFIX}*{_SUFFIX}"):
        try:
            lock = _lock(folder)
        except BlockingIOError:
            continue
        except OSError:
            with suppress(OSError):
                if time.time() - folder.lstat().st_mtime > _ABANDONED_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _create_locked(parent: Path) -> tuple[Path, int | None]:
    """Returns a new scratch folder and its lock; None where the file system has no locks."""
    while True:
        folder = Path(tempfile.mkdtemp(_SUFFIX, _PREFIX, parent))
        try:
            lock = _lock(folder)
        except (BlockingIOError, FileNotFoundError):
            continue
        except OSError:
            return folder, None
        if folder.exists():
            return folder, lock
        # Another process found the folder before it was locked, and removed it as abandoned.
        os.close(lock)


def _wait_for_lock(folder: Path) -> int | None:
    """Creates a folder if necessary and locks it; None where the file system has no locks."""
    while True:
        folder.mkdir(exist_ok=True)
        try:
            lock = _lock(folder)
        except FileNotFoundError:
            continue
        except BlockingIOError:
            logger.info("waiting for another process that writes %s", folder)
            try:
                lock = _lock(folder, wait=True)
            except FileNotFoundError:
                continue
        except OSError:
            # NFS locks only what is open for writing, which a folder cannot be.
            found = _lock_file(folder / _LOCK)
            if found is None:
                return None
            lock = found
        # The other process may have published or removed the folder.
        locked = folder / _LOCK if stat.S_ISREG(os.fstat(lock).st_mode) else folder
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), locked.stat()):
                return lock
        os.close(lock)


def _lock_file(path: Path) -> int | None:
    """Creates a file in an existing folder and waits for its lock; None where there are no locks."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        os.close(handle)
        path.unlink(missing_ok=True)
        return None
    return handle


def _lock(folder: Path, wait: bool = False) -> int:
    if fcntl is None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(handle)
        raise
    return handle
