"""Rows of files with columns: JSON Lines, CSV, Parquet and Arrow, read one after the other.

A row has the number that its file shows for it: the line of JSON Lines; the row of CSV, of which the header
is the first; the row of Parquet and Arrow, from 1.
"""

import codecs
import csv
import itertools
import json
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minigpt.corpus.blocks import COMPRESSIONS, blocks, checked_blocks, lines
from minigpt.environment import install_command
from minigpt.errors import UserError

Row = tuple[int, dict[str, Any]]
TEXT_COLUMN = "text"
# Rows of Parquet and Arrow that become Python objects at once.
_ROWS_AT_ONCE = 256
# Rows that are read to find the column of texts.
_ROWS_EXAMINED = 100
# A quote that is never closed should not read a large file into memory.
_MAX_VALUE = 100_000_000
_MAX_ARRAY = 1_000_000_000
# Surrogates that Python encodes; in JSON they are written as \\ud800 to \\udfff.
_NUMBER = re.compile(r"[-+.,\deE]*")
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")


class Faults:
    """The problems of a file. Rows with the same problem become one line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._of_file: list[str] = []
        # Reason → number and details of the first row, number of rows.
        self._of_rows: dict[str, tuple[int, str, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_file or self._of_rows)

    def add(self, row: int, reason: str, details: object = "") -> None:
        """Adds the problem of a row; the details are shown for the first row with this reason."""
        first, shown, count = self._of_rows.get(reason, (row, str(details), 0))
        self._of_rows[reason] = (first, shown, count + 1)

    def add_error(self, error: UserError) -> None:
        self._of_file += error.problems

    def check(self) -> None:
        """Raises a `UserError` with all problems, one line each."""
        found = [
            f"{self._path}: row {row:,}{f' and {n - 1:,} more rows' if n > 1 else ''}: "
            + (f"{reason}: {details}" if details else reason)
            for reason, (row, details, n) in self._of_rows.items()
        ]
        if self:
            raise UserError(*found, *self._of_file)


Reader = Callable[[Path, Faults, Sequence[str] | None], Iterator[Row]]


def format_of(path: Path) -> str | None:
    """Returns the format of a file with rows, such as ".jsonl"; None for plain text."""
    name = path.name.lower()
    for suffix in COMPRESSIONS:
        name = name.removesuffix(suffix)
    suffix = Path(name).suffix
    return suffix if suffix in _READERS else None


def open_rows(path: Path, faults: Faults, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Yields number and columns of each row of a file; raises nothing for what a file contains.

    Args:
      path: a file with a format, see `format_of`.
      faults: receives the problems of the file, and of the rows that are left out.
      columns: those that are needed; others may be left out. None for all.
    """
    has_rows = False
    try:
        for row in _READERS[format_of(path) or ""](path, faults, columns):
            has_rows = True
            yield row
        if not has_rows and not faults:
            raise UserError(f"{path}: has no rows; should contain text")
    except UserError as error:
        faults.add_error(error)


def open_texts(
    path: Path, field: str | None, faults: Faults, opened: Reader = open_rows
) -> Iterator[tuple[int, bytes]]:
    """Yields number and text of each row: its value in the column `field`; see `text_column`."""
    try:
        field = text_column(path, field, opened)
    except UserError as error:
        faults.add_error(error)
        return
    for number, row in opened(path, faults, [field]):
        value = row.get(field)
        text = value.encode(errors="surrogatepass") if isinstance(value, str) else None
        if text is None:
            shown = reprlib.repr(value) if field in row else "missing"
            faults.add(number, f"{field!r} should be a string", shown)
        elif b"\0" in text or (not text.isascii() and _SURROGATE.search(text)):
            faults.add(number, f"{field!r} should contain no NUL and no half of a surrogate pair")
        else:
            yield number, text


def text_column(path: Path, field: str | None = None, opened: Reader = open_rows) -> str:
    """Returns the column of a file's texts.

    Args:
      path: a file with a format.
      field: the column; None for the one that is called "text", or else the only one of strings.
      opened: reads the rows of a path, as `open_rows` does.
    Raises:
      UserError: with the problems of the file, or because there is no such column.
    """
    faults = Faults(path)
    values: dict[str, Any] = {}
    for _, row in itertools.islice(opened(path, faults, None), _ROWS_EXAMINED):
        values |= {name: value for name, value in row.items() if values.get(name) is None}
    if not values:
        faults.check()
        raise UserError(f"{path}: has no rows; should contain text")
    # All values of CSV are strings, of numbers too.
    names = [n for n, v in values.items() if isinstance(v, str) and not _NUMBER.fullmatch(v)]
    names = names or list(values)
    if field is None and (TEXT_COLUMN in values or len(names) == 1):
        return TEXT_COLUMN if TEXT_COLUMN in values else names[0]
    # Objects of JSON need not have the same names.
    if field and (field in values or format_of(path) in _OF_OBJECTS):
        return field
    shown = ", ".join(map(repr, names[:20])) + ", ..." * (len(names) > 20)
    raise UserError(f"{path}: no column {field or TEXT_COLUMN!r}; data.field: one of {shown}")


def _json_lines(path: Path, faults: Faults, columns: Sequence[str] | None) -> Iterator[Row]:
    for number, line in enumerate(lines(blocks(path)), start=1):
        if not (line := line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip():
            continue
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            kind = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
            faults.add(number, f"not valid {kind}", error)
        else:
            yield from _objects(number, value, faults)


def _objects(number: int, value: Any, faults: Faults) -> Iterator[Row]:
    if isinstance(value, dict):
        yield number, value
    else:
        faults.add(number, 'should be an object like {"text": "..."}', reprlib.repr(value))


def _json(path: Path, faults: Faults, columns: Sequence[str] | None) -> Iterator[Row]:
    """Reads JSON Lines, or one array of objects, which is read as a whole."""
    if not next(checked_blocks(path)).lstrip().startswith(b"["):
        yield from _json_lines(path, faults, columns)
        return
    if path.stat().st_size > _MAX_ARRAY:
        raise UserError(
            f"{path}: a large array; should be JSON Lines: jq -c '.[]' {path} > FILE.jsonl"
        )
    try:
        values = json.loads(b"".join(checked_blocks(path)))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON: {error}") from None
    for number, value in enumerate(values, start=1):
        yield from _objects(number, value, faults)


def _csv(path: Path, faults: Faults, columns: Sequence[str] | None) -> Iterator[Row]:
    # The limit is the process's. The module's own, 128 KB, is too small for a document.
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_VALUE))
    text = (line.decode() + "\n" for line in lines(checked_blocks(path)))
    first = next(text, "")
    delimiters = "\t" if format_of(path) == ".tsv" else ",;\t"
    delimiter = next((d for d in delimiters if d in first), delimiters[0])
    records = csv.reader(itertools.chain([first], text), delimiter=delimiter, strict=True)
    header: list[str] = []
    for number in itertools.count(1):
        try:
            record = next(records, None)
        except csv.Error as error:
            is_open = "unexpected end" in str(error)
            faults.add(number, "a quote is not closed" if is_open else str(error))
            continue
        if record is None:
            break
        if not header:
            header = record
            if len(set(header)) < len(header):
                raise UserError(f"{path}: the header names a column twice: {header!r:.200}")
        elif len(record) == len(header):
            yield number, dict(zip(header, record, strict=True))
        elif record:
            reason = "has more or fewer values than the header"
            faults.add(number, reason, f"{len(record)}, not {len(header)}")


def _parquet(path: Path, faults: Faults, columns: Sequence[str] | None) -> Iterator[Row]:
    # Without these settings, whole columns of a row group would be in memory.
    streamed = {"buffer_size": 1 << 20, "pre_buffer": False}
    with _pyarrow(path) as pyarrow, pyarrow.parquet.ParquetFile(path, **streamed) as file:
        yield from _rows(file.iter_batches(_ROWS_AT_ONCE, columns=columns), faults)


def _arrow(path: Path, faults: Faults, columns: Sequence[str] | None) -> Iterator[Row]:
    with _pyarrow(path) as pyarrow, pyarrow.OSFile(str(path)) as file:
        # Other programs write files; `datasets` writes streams.
        if file.read(6) == b"ARROW1":
            reader = pyarrow.ipc.open_file(file)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        else:
            file.seek(0)
            batches = iter(pyarrow.ipc.open_stream(file))
        yield from _rows((b.select(columns) if columns else b for b in batches), faults)


@contextmanager
def _pyarrow(path: Path) -> Iterator[Any]:
    """Imports pyarrow; its errors become those of the file."""
    kind = path.suffix.lower()
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        command = install_command("data")
        raise UserError(f"{kind} files need pyarrow, which is not installed: {command}") from None
    try:
        yield pyarrow
    except (OSError, pyarrow.ArrowException) as error:
        reason = next(iter(str(error).splitlines()), "")
        raise UserError(f"{path}: not a readable {kind} file: {reason}") from None


def _rows(batches: Iterable[Any], faults: Faults) -> Iterator[Row]:
    number = 0
    parts = (b.slice(n, _ROWS_AT_ONCE) for b in batches for n in range(0, len(b), _ROWS_AT_ONCE))
    for part in parts:
        try:
            yield from enumerate(part.to_pylist(), start=number + 1)
        except UnicodeDecodeError:
            for index in range(len(part)):
                try:
                    yield number + index + 1, part.slice(index, 1).to_pylist()[0]
                except UnicodeDecodeError as error:
                    faults.add(number + index + 1, "not valid UTF-8", error)
        number += len(part)


_READERS: dict[str, Reader] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".arrow": _arrow,
}
_OF_OBJECTS = (".jsonl", ".ndjson", ".json")
