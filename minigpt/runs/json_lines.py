"""Files with one JSON object per line: metrics.jsonl and samples.jsonl."""

import json
import math
import os
from pathlib import Path
from typing import Any

from minigpt.storage.atomic import replace_file


def append_line(file: Path, record: dict[str, Any]) -> None:
    """Appends one line and forces it to the disk.

    Raises:
      OSError: the line cannot be written; a part of it may remain, which `cut_lines` removes.
    """
    with open(file, "a", encoding="utf-8", opener=_open_no_link) as lines:
        lines.write(json.dumps(record, ensure_ascii=False) + "\n")
        lines.flush()
        os.fsync(lines.fileno())


def cut_lines(file: Path, epochs: int) -> None:
    """Removes the lines after the first `epochs` epochs, and incomplete lines. The file may be missing."""
    if not file.is_file():
        return
    before = file.read_bytes()
    kept = b"".join(line for line in before.splitlines(True) if _epoch_of(line) <= epochs)
    if kept != before:
        replace_file(file, kept)


def _open_no_link(path: str, flags: int) -> int:
    """Opens a file but no symbolic link: in a directory from someone else, a link may lead to any file."""
    # O_NONBLOCK: opening a pipe does not block.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _epoch_of(line: bytes) -> float:
    """Returns the epoch of a line; infinity if the line is incomplete."""
    try:
        return float(json.loads(line)["epoch"]) if line.endswith(b"\n") else math.inf
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return math.inf
