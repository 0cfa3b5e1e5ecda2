"""Reading files, forcing them to the disk, and the folder for cached ones."""

import errno
import hashlib
import os
import stat
import sys
from pathlib import Path


def fsync(path: Path) -> None:
    """Forces a file, or the list of names in a folder, to the disk; on Windows, only a file."""
    if sys.platform == "win32" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_all(folder: Path) -> None:
    """Forces a folder and everything below it to the disk."""
    for path in (folder, *folder.rglob("*")):
        fsync(path)


def read_file(path: Path, max_bytes: int | None = None) -> bytes:
    """Reads a regular file of at most `max_bytes`. A pipe or a device could block or never end.

    Raises:
      OSError: the file cannot be read, is not a regular file, or is larger than `max_bytes`.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        content = file.read() if max_bytes is None else file.read(max_bytes + 1)
    if max_bytes is not None and len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes:,} bytes", str(path))
    return content


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bundled(name: str) -> Path:
    """Returns a file or folder, such as "configs", in the installed package or next to it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / name
    return installed if installed.exists() else package.parent / name


def cache_folder() -> Path:
    """Returns `$MINIGPT_CACHE`, `$XDG_CACHE_HOME/minigpt` or `~/.cache/minigpt`; it may not exist yet."""
    if path := os.environ.get("MINIGPT_CACHE"):
        return Path(path).expanduser().absolute()
    if path := os.environ.get("XDG_CACHE_HOME"):
        return Path(path).expanduser().absolute() / "minigpt"
    return Path.home() / ".cache" / "minigpt"
