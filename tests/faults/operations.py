"""Calls a function before every operation of this process on the files below some folders.

A process that is stopped before each operation in turn has been stopped in every gap between two of them.
Writes from C++ (the inside of a SavedModel) are not observed; tests at random moments cover these.
"""

import builtins
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.numpy
from safetensors import SafetensorError

CHANGES_FILES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# The operations that need space. The others succeed on a full disk.
NEEDS_SPACE = ("open", "mkdir", "write")

_CHANGING = [
    (r"\.minigpt-\w+\.tmp", ".scratch"),
    (r"[0-9a-f]{64}", "KEY"),
    (r"step-\d+", "step-N"),
    (r"epoch-\d+", "epoch-N"),
    (r"(?<=[.#])\d+", "N"),
]

_open, _fsync, _serialize_file = io.open, os.fsync, safetensors.numpy.serialize_file
_before: Callable[[str], None] | None = None
_folders: tuple[str, ...] = ()
_counts: Counter[str] = Counter()
_is_hooked = False


@contextmanager
def watched(folders: Sequence[Path], before: Callable[[str], None]) -> Iterator[None]:
    """Calls `before` with the name of every operation before it is done.

    A name is "KIND PATH", or "write PATH #N" for the N-th write since the file was opened. Numbers that
    differ between processes or steps are replaced, so that other processes use the same names.

    Args:
      folders: the folders to observe, or prefixes of their paths.
      before: may raise an OSError, which the operation then raises.
    """
    global _before, _folders, _is_hooked
    if not _is_hooked:
        sys.addaudithook(_audit)  # It cannot be removed: hence the variable.
        _is_hooked = True
    io.open = builtins.open = _opened  # type: ignore[assignment]
    os.fsync = _synced  # type: ignore[assignment]
    safetensors.numpy.serialize_file = _serialized
    _folders = tuple(f"{Path(folder).resolve()}" for folder in folders)
    _counts.clear()
    _before = before
    try:
        yield
    finally:
        _before = None
        io.open = builtins.open = _open  # type: ignore[assignment]
        os.fsync = _fsync
        safetensors.numpy.serialize_file = _serialize_file


def _tell(kind: str, path: Any, folder: int = -1) -> None:
    global _before
    if _before is None:
        return
    before, _before = _before, None  # Its own operations are not observed.
    try:
        name = _full_path(path, folder)
        if name.startswith(_folders):
            if kind == "open":
                _counts[name] = 0
            _counts[name] += kind == "write"
            number = f" #{_counts[name]}" if kind == "write" else ""
            for watched_folder in _folders:
                name = name.removeprefix(f"{os.path.dirname(watched_folder)}/")
            for pattern, shown in _CHANGING:
                name = re.sub(pattern, shown, name)
            before(f"{kind} {name}{number}")
    finally:
        _before = before


def _full_path(path: Any, folder: int) -> str:
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}")
    above = os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else os.getcwd()
    return os.path.normpath(os.path.join(above, os.fsdecode(path)))


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _before is None:
        return
    if event == "open" and arguments[2] & CHANGES_FILES and not isinstance(arguments[0], int):
        _tell("open", arguments[0])
    elif event == "os.mkdir":
        _tell("mkdir", arguments[0], arguments[2])
    elif event == "os.rename":
        _tell("rename", arguments[0], arguments[2])
    elif event in ("os.remove", "os.rmdir"):
        _tell(event.removeprefix("os."), arguments[0], arguments[1])
    elif event == "os.truncate":
        _tell("truncate", arguments[0])


def _synced(file: Any) -> None:
    _tell("fsync", file if isinstance(file, int) else file.fileno())
    _fsync(file)


def _serialized(tensors: Any, filename: Any, metadata: Any = None) -> None:
    """Replaces `safetensors.serialize_file`, whose writes from Rust cannot be observed.

    A write is simulated when half of the file is there. A failure is raised as the library raises it.
    """
    global _before
    before, _before = _before, None
    file = Path(filename)
    _serialize_file(tensors, filename, metadata=metadata)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    _before = before
    try:
        _tell("write", filename)
    except OSError as error:
        _before = None
        file.unlink()
        _before = before
        raise SafetensorError(
            f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
        ) from None
    _before = None
    file.write_bytes(content)
    _before = before


class _File(io.FileIO):
    """Reports every write to the system before it is done."""

    def write(self, data: Any) -> int:
        _tell("write", self.fileno())
        return super().write(data)


def _opened(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    """Replaces `open`; the files report their writes."""
    if not set(mode) & set("wax+") or buffering == 0:
        return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    raw = _File(file, mode.replace("b", "").replace("t", ""), closefd, opener)
    buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
    if "b" in mode:
        return buffered
    return io.TextIOWrapper(buffered, encoding, errors, newline)
