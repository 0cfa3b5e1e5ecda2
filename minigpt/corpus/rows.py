"""Files read in blocks of bytes, or row by row: JSON Lines, CSV, Parquet and Arrow.

A new kind of file is a function in `READERS`, which yields rows such as {"text": "..."}. `.gz` and `.zst`
are decompressed by `blocks`. A file is refused at its first problem, in one line.
"""

import codecs
import csv
import gzip
import itertools
import json
import re
import reprlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from minigpt.environment import install_command
from minigpt.errors import UserError

BLOCK_BYTES = 1 << 20
# Few, because a block can decompress to thousands of times its size.
_ZSTD_BYTES = 1 << 14
COMPRESSIONS = (".gz", ".zst")
Row = dict[str, Any]
TEXT_COLUMN = "text"
# Columns of lists of messages; see `dialogues`.
DIALOGUE_COLUMNS = ("messages", "conversations")
# Rows of Parquet and Arrow that become Python objects at once.
_ROWS_AT_ONCE = 256
# A quote that is never closed should not read a large file into memory.
_MAX_VALUE = 100_000_000
_NUMBER = re.compile(r"[-+.,\deE]*")


def format_of(path: Path) -> str | None:
    """Returns the format of a file with rows, such as ".jsonl"; None for plain text."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz").removesuffix(".zst")).suffix
    return suffix if suffix in READERS else None


def open_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Yields the columns of each row of a file that has a format; see `format_of`.

    Args:
      path: the file.
      columns: those that are needed; others may be left out. None for all.
    Raises:
      UserError: at the first problem, or because there are no rows.
    """
    number = 0
    try:
        for row in READERS[format_of(path) or ""](path, columns):
            if not isinstance(row, dict):
                raise ValueError(f"should be an object, not {reprlib.repr(row)}")
            yield row
            number += 1
    except ModuleNotFoundError as error:
        needed = f"{error.name} is not installed: {install_command('data')}"
        raise UserError(f"{path.suffix.lower()}: {needed}") from None
    except UserError:
        raise
    except Exception as error:  # Each library has exceptions of its own.
        problem = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"{path}: row {number + 1:,}: not {format_of(path)}: {problem}") from None
    if not number:
        raise UserError(f"{path}: has no rows; should contain text")


def open_texts(path: Path, field: str | None) -> Iterator[bytes]:
    """Yields the text of each row: its value in the column `field`; see `text_column`."""
    field = text_column(path, field)
    for number, row in enumerate(open_rows(path, [field]), start=1):
        value = row.get(field)
        if not isinstance(value, str) or "\0" in value:
            problem = f"{field!r} should be a string of text: {reprlib.repr(value)}"
            raise UserError(f"{path}: row {number:,}: {problem}")
        # Half of a surrogate pair becomes a question mark.
        yield value.encode(errors="replace")


def text_column(path: Path, field: str | None = None) -> str:
    """Returns the column of a file's texts.

    Args:
      path: a file with a format.
      field: the column; None for the one that is called "text", or else the only one of strings.
    Raises:
      UserError: with the problem of the file, or because there is no such column.
    """
    values: dict[str, Any] = {}
    for row in itertools.islice(open_rows(path), 100):
        values |= {name: value for name, value in row.items() if values.get(name) is None}
    # All values of CSV are strings, of numbers too.
    names = [n for n, v in values.items() if isinstance(v, str) and not _NUMBER.fullmatch(v)]
    wanted = field or TEXT_COLUMN
    # Objects of JSON need not have the same names.
    if wanted in values or (field and "json" in str(format_of(path))):
        return wanted
    names = names or list(values)
    if field is None and len(names) == 1:
        return names[0]
    shown = ", ".join(map(repr, names[:20])) + ", ..." * (len(names) > 20)
    raise UserError(f"{path}: no column {wanted!r}; data.field: one of {shown}")


def _json_lines(path: Path, columns: Sequence[str] | None) -> Iterator[Any]:
    return (json.loads(line) for line in lines(checked_blocks(path)) if line.strip())


def _json(path: Path, columns: Sequence[str] | None) -> Iterator[Any]:
    """Reads JSON Lines, or one array of objects, which is read as a whole."""
    if not next(checked_blocks(path)).lstrip().startswith(b"["):
        return _json_lines(path, columns)
    return iter(json.loads(b"".join(checked_blocks(path))))


def _csv(path: Path, columns: Sequence[str] | None) -> Iterator[Row]:
    # The limit is the process's. The module's own, 128 KB, is too small for a document.
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_VALUE))
    # A line can end with CR alone, as those of Excel on old Macs do. Quoted ones are kept.
    parts = ((line + b"\n").splitlines(keepends=True) for line in lines(checked_blocks(path)))
    decoded = map(bytes.decode, itertools.chain.from_iterable(parts))
    text = itertools.dropwhile(lambda line: not line.strip(), decoded)
    first = next(text, "")
    delimiters = "\t" if format_of(path) == ".tsv" else ",;\t"
    delimiter = next((d for d in delimiters if d in first), delimiters[0])
    reader = csv.DictReader(itertools.chain([first], text), delimiter=delimiter, strict=True)
    for row in reader:
        if None in row or None in row.values():
            raise ValueError("a row has more or fewer values than the header")
        yield row


def _parquet(path: Path, columns: Sequence[str] | None) -> Iterator[Row]:
    import pyarrow.parquet

    # Without these settings, whole columns of a row group would be in memory.
    with pyarrow.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
            yield from batch.to_pylist()


def _arrow(path: Path, columns: Sequence[str] | None) -> Iterator[Row]:
    import pyarrow

    with pyarrow.OSFile(str(path)) as file:
        # Other programs write files; `datasets` writes streams.
        if file.read(6) == b"ARROW1":
            reader = pyarrow.ipc.open_file(file)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        else:
            file.seek(0)
            batches = iter(pyarrow.ipc.open_stream(file))
        for batch in batches:
            needed = batch.select(columns) if columns else batch
            for start in range(0, len(needed), _ROWS_AT_ONCE):
                yield from needed.slice(start, _ROWS_AT_ONCE).to_pylist()


# Suffix → a function that yields the rows of a file; columns that are not needed may be left out.
READERS: dict[str, Callable[[Path, Sequence[str] | None], Iterator[Any]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".arrow": _arrow,
}


def checked_blocks(path: Path) -> Iterator[bytes]:
    """Yields the text of a file in blocks, without a byte order mark.

    Raises:
      UserError: the file is empty, or it is not text in UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_bytes = 0
    for block in itertools.chain(blocks(path), [b""]):
        try:
            if "\0" in decoder.decode(block, final=not block):
                raise UserError(f"{path}: has bytes of value 0; should be text in UTF-8")
        except UnicodeDecodeError as error:
            place = n_bytes + len(block) - len(error.object) + error.start
            problem = f"{error.reason} at byte {place:,}; should be text in UTF-8"
            raise UserError(f"{path}: {problem}") from None
        if block:
            yield block.removeprefix(codecs.BOM_UTF8) if n_bytes == 0 else block
        n_bytes += len(block)
    if n_bytes == 0:
        raise UserError(f"{path}: empty; should contain text")


def blocks(path: Path) -> Iterator[bytes]:
    """Yields the bytes of a file in blocks, none empty; raises UserError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            yield from _decompressed(file, path.suffix)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read: {reason}") from None


def lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines of a text without their line feeds."""
    rest: list[bytes] = []
    for block in blocks:
        first, *others = block.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest = others[-1:]
    if last := b"".join(rest):
        yield last


def _decompressed(file: IO[bytes], suffix: str) -> Iterator[bytes]:
    if suffix == ".zst":
        yield from _zstd_blocks(file)
        return
    source = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if suffix == ".gz" else file
    while block := source.read(BLOCK_BYTES):
        yield block


def _zstd_blocks(file: IO[bytes]) -> Iterator[bytes]:
    # Unlike `stream_reader`, an object for each frame tells whether the frame is complete.
    frame, compressed = None, b""
    while compressed or (compressed := file.read(_ZSTD_BYTES)):
        frame = frame or zstandard.ZstdDecompressor().decompressobj()
        if block := frame.decompress(compressed):
            yield block
        compressed = frame.unused_data if frame.eof else b""
        frame = None if frame.eof else frame
    if frame:
        raise EOFError("Compressed file ended before the end of its last frame")
