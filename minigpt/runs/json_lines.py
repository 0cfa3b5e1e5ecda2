"""Files with one JSON object per line: metrics.jsonl, samples.jsonl and steps.jsonl."""

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from minigpt.storage.atomic import replace_file


def append_line(file: Path, record: dict[str, Any]) -> None:
    """Appends one line and forces it to the disk; see `append_lines`."""
    append_lines(file, [record])


def append_lines(file: Path, records: Iterable[dict[str, Any]]) -> None:
    """Appends lines and forces them to the disk.

    Raises:
      OSError: they cannot be written; a part of them may remain, which `cut_lines` removes.
    """
    with open(file, "a", encoding="utf-8", opener=_open_no_link) as lines:
        lines.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        lines.flush()
        os.fsync(lines.fileno())


def cut_lines(file: Path, last: int, key: str = "epoch") -> None:
    """Removes the lines whose `key` is above `last`, and incomplete lines. The file may be missing."""
    if not file.is_file():
        return
    before = file.read_bytes()
    kept = b"".join(line for line in before.splitlines(True) if _number(line, key) <= last)
    if kept != before:
        replace_file(file, kept)


def _open_no_link(path: str, flags: int) -> int:
    """Opens a file but no symbolic link: in a directory from someone else, a link may lead to any file."""
    # O_NONBLOCK: opening a pipe does not block.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _number(line: bytes, key: str) -> float:
    """Returns the number of a line's `key`; infinity if the line is incomplete."""
    try:
        return float(json.loads(line)[key]) if line.endswith(b"\n") else math.inf
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return math.inf
