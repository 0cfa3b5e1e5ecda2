"""Files that are on the disk when a function returns, and are never half there."""

import os
from pathlib import Path


def fsync(path: Path) -> None:
    """Returns when the file or folder (its list of names) is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
