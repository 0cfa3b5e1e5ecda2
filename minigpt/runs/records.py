"""Values from the files of a run, which may be damaged, from another version, or from somebody else."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from minigpt.storage.files import read_file

T = TypeVar("T")

# Larger files are not read.
_MAX_FILE_BYTES = 200_000_000
# JavaScript has the integers up to this one.
_MAX_INTEGER = 2**53 - 1
_CUT = "…"


def read_object(file: Path) -> dict[str, Any]:
    """Returns the object in a JSON file; {} if the file is missing or damaged."""
    try:
        return mapping(json.loads(read_file(file, _MAX_FILE_BYTES)))
    except (OSError, ValueError, RecursionError):
        return {}


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Returns the objects in a file of JSON lines, without damaged lines; none if it is missing."""
    try:
        # Bytes: a string would be split at U+2028 and U+0085 too, which may be in a sample.
        lines = read_file(file, _MAX_FILE_BYTES).splitlines()
    except OSError:
        return []
    return [record for line in lines if (record := _object(line))]


def _object(line: bytes) -> dict[str, Any]:
    try:
        return mapping(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def mapping(value: Any) -> dict[str, Any]:
    """Returns a dictionary; {} for anything else."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any, most: int) -> list[dict[str, Any]]:
    """Returns the dictionaries in a list, at most `most`; [] if it is no list."""
    values = value if isinstance(value, list) else []
    return [item for item in values[:most] if isinstance(item, dict)]


def number(value: Any) -> float | int | None:
    """Returns a finite number; None for anything else, which a page could not draw."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # An integer that is larger than every float.
        return None


def numbers(record: dict[str, Any], names: Iterable[str]) -> dict[str, float | int | None]:
    """Returns some values of a record as `number` does; None for those that are missing."""
    return {name: number(record.get(name)) for name in names}


def count(value: Any) -> int | None:
    """Returns an integer from 0 to 2⁵³ - 1; None for anything else."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return value if is_integer and 0 <= value <= _MAX_INTEGER else None


def text(value: Any, most: int) -> str | None:
    """Returns the first `most` characters of a string; None for anything else."""
    if not isinstance(value, str):
        return None
    return value if len(value) <= most else value[:most] + _CUT


def texts(record: dict[str, Any], names: Iterable[str], most: int) -> dict[str, str]:
    """Returns the strings among some values of a record, each cut to `most` characters."""
    found = {name: text(record.get(name), most) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def spread(values: Sequence[T], most: int) -> list[T]:
    """Returns at most `most` ≥ 2 values at about equal distances, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(i * last / (most - 1))] for i in range(most)]
