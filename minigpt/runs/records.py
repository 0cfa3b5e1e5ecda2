"""The small files of a run: values, JSON lines, and facts.json.

A file may be damaged, from another version, or from somebody else.
"""

import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from minigpt.storage.atomic import replace_file
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
        return _object(read_file(file, _MAX_FILE_BYTES))
    except OSError:
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


def spread(values: Sequence[T], most: int) -> list[T]:
    """Returns at most `most` ≥ 2 values at about equal distances, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(i * last / (most - 1))] for i in range(most)]


def interval_lines(
    lines: Sequence[dict[str, Any]], most: int | None = None
) -> list[dict[str, Any]]:
    """Returns the lines of steps.jsonl that have a step, in order, with the loss since the line before.

    Training that is resumed from a checkpoint may repeat steps: the last line of a step counts.

    Args:
      lines: the lines. They have the mean loss and the number of batches since their epoch began.
      most: at most so many lines are returned, at about equal distances.
    Returns:
      Copies with "loss", a mean; None if it is not known, or if that of the line before is not known.
    """
    kept: list[dict[str, Any]] = []
    for line in lines:
        if (step := count(line.get("step"))) is not None:
            while kept and kept[-1]["step"] >= step:
                kept.pop()
            kept.append(dict(line))
    if most is not None:
        kept = spread(kept, most)
    epoch: Any = None
    before: tuple[float, float] | None = None
    for line in kept:
        if line.get("epoch") != epoch:
            epoch, before = line.get("epoch"), (0.0, 0.0)
        batches, mean = number(line.get("batches")), number(line.get("mean_loss"))
        line["loss"] = None
        now = None if batches is None or mean is None else (batches, batches * mean)
        if now and before and now[0] > before[0]:
            line["loss"] = number((now[1] - before[1]) / (now[0] - before[0]))
        before = now
    return kept


def append_lines(file: Path, records: Iterable[dict[str, Any]]) -> None:
    """Appends lines and forces them to the disk.

    Raises:
      OSError: they cannot be written; a part of them may remain, which `cut_lines` removes.
    """
    with open(file, "a", encoding="utf-8", opener=_open_no_link) as lines:
        lines.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        lines.flush()
        os.fsync(lines.fileno())


def cut_lines(file: Path, last: float, key: str = "epoch") -> None:
    """Removes the lines whose `key` is above `last`, and incomplete lines. The file may be missing."""
    if not file.is_file():
        return
    before = file.read_bytes()
    kept = b"".join(line for line in before.splitlines(True) if _number(line, key) <= last)
    if kept != before:
        replace_file(file, kept)


def _open_no_link(path: str, flags: int) -> int:
    """Opens a file, not a symbolic link: in a directory from someone else, a link may lead to any file."""
    # O_NONBLOCK: opening a pipe does not block.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _number(line: bytes, key: str) -> float:
    """Returns the number of a line's `key`; infinity if the line is incomplete."""
    try:
        return float(json.loads(line)[key]) if line.endswith(b"\n") else math.inf
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return math.inf


Count = Annotated[int, Field(ge=0, le=_MAX_INTEGER)]


class Facts(BaseModel):
    """The content of facts.json.

    Attributes:
      parameters: number of weights of the finished model; the factors of LoRA are part of its matrices.
      baselines: losses to compare the validation loss with, in nats per token; for pairs, per target token:
        "uniform", of the uniform distribution, and "unigram", of the token frequencies of the training
        text; None if the held-out part has no tokens.
      train_bytes: size of the training text in UTF-8; for pairs, of the targets.
      train_tokens, val_tokens: tokens of the training text and the held-out text.
      device: the device that training began on, as in the summary.
      text: the line of the summary about the text and its split.
      bits_before_training: bits per byte of the model that training could start from, and of a 7-gram of
        the text itself; None if they were not measured.
    """

    # The file may come from someone else, so types are checked. A later version may add keys.
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)

    parameters: Count
    baselines: dict[Literal["uniform", "unigram"], float | None]
    train_bytes: Count
    train_tokens: Count
    val_tokens: Count
    device: str
    text: str
    bits_before_training: dict[Literal["model", "ngram"], float] | None = None
