"""Files that are on the disk when a function returns, are never half there, and are what they were."""

import errno
import hashlib
import os
import stat
from pathlib import Path


def fsync(path: Path) -> None:
    """Returns when the file or folder (its list of names) is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_all(folder: Path) -> None:
    """Returns when a folder and all that is below it are on the disk."""
    for path in (folder, *folder.rglob("*")):
        fsync(path)


def read_file(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
      OSError: it cannot be read, or is no regular file; a pipe would be waited for, for ever.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read()


def sha256_of(path: Path) -> str:
    """Of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_file(path: Path, data: bytes) -> None:
    """Gives a file this content; at every moment it has either the old or the new one.

    Raises:
      OSError: it cannot be written; the old one is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        fsync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
