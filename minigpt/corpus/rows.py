"""Files read in blocks of bytes, or row by row: JSON Lines, CSV, Parquet and Arrow.

A new kind of file is a function in `READERS`, which yields rows such as {"text": "..."} from the blocks of
a file, decompressed by `blocks`, or from its whole `content`. A file is refused at its first problem.
"""

import codecs
import csv
import functools
import gzip
import hashlib
import io
import itertools
import json
import os
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
# Larger files are not read into memory as a whole.
_IN_MEMORY = 1 << 26
# Rows in which a column of texts is looked for.
_FIRST_ROWS = 100
# A quote that is never closed should not read a large file into memory.
_MAX_VALUE = 100_000_000
_NUMBER = re.compile(r"[-+.,\deE]*")


class SourceFile(io.FileIO):
    """A file of the user, which is hashed while it is read from its beginning to its end.

    Raises:
      UserError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hash = hashlib.sha256()
        try:
            super().__init__(path)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from None

    def read(self, size: int | None = -1) -> bytes:
        block = super().read(size) or b""
        self._hash.update(block)
        return block

    @functools.cached_property
    def content(self) -> bytes:
        """All bytes, for a reader that needs them in another order."""
        return self.read()

    def sha256(self) -> str:
        """Returns the SHA-256 of the whole file; reads what has not been read."""
        while self.read(BLOCK_BYTES):
            pass
        return self._hash.hexdigest()


def format_of(path: Path) -> str | None:
    """Returns the format of a file with rows, such as ".jsonl"; None for plain text."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz").removesuffix(".zst")).suffix
    return suffix if suffix in READERS else None


def open_rows(file: SourceFile, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Yields the columns of each row of a file that has a format; see `format_of`.

    Args:
      columns: those that are needed; others may be left out. None for all.
    Raises:
      UserError: at the first problem, or because there are no rows.
    """
    number, path = 0, file.path
    try:
        for row in READERS[format_of(path) or ""](file, columns):
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


def open_texts(file: SourceFile, field: str | None) -> tuple[str, Iterator[bytes]]:
    """Returns the column of a file's texts, and an iterator over the text of each row.

    Args:
      field: the column; None for the one that is called "text", or else the only one of strings.
    Raises:
      UserError: with the problem of the file, or because there is no such column.
    """
    rows, path = open_rows(file), file.path
    first = list(itertools.islice(rows, _FIRST_ROWS))
    column = _text_column(first, path, field)
    # Other columns of these formats need not be read.
    is_columnar = format_of(path) in (".parquet", ".arrow")
    rows = open_rows(file, [column]) if is_columnar else itertools.chain(first, rows)

    def texts() -> Iterator[bytes]:
        for number, row in enumerate(rows, start=1):
            value = row.get(column)
            if not isinstance(value, str) or "\0" in value:
                problem = f"{column!r} should be a string of text: {reprlib.repr(value)}"
                raise UserError(f"{path}: row {number:,}: {problem}")
            # Half of a surrogate pair becomes a question mark.
            yield value.encode(errors="replace")

    return column, texts()


def _text_column(first: Iterable[Row], path: Path, field: str | None) -> str:
    values: dict[str, Any] = {}
    for row in first:
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


def _json(file: SourceFile, columns: Sequence[str] | None) -> Iterator[Any]:
    """Reads JSON Lines, or one array of objects, which is read as a whole."""
    blocks = checked_blocks(file)
    first = next(blocks)
    blocks = itertools.chain([first], blocks)
    if first.lstrip().startswith(b"["):
        return iter(json.loads(b"".join(blocks)))
    return (json.loads(line) for line in lines(blocks) if line.strip())


def _csv(file: SourceFile, columns: Sequence[str] | None) -> Iterator[Row]:
    # The limit is the process's. The module's own, 128 KB, is too small for a document.
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_VALUE))
    # A line can end with CR alone, as those of Excel on old Macs do. Quoted ones are kept.
    parts = ((line + b"\n").splitlines(keepends=True) for line in lines(checked_blocks(file)))
    decoded = map(bytes.decode, itertools.chain.from_iterable(parts))
    text = itertools.dropwhile(lambda line: not line.strip(), decoded)
    first = next(text, "")
    delimiters = "\t" if format_of(file.path) == ".tsv" else ",;\t"
    delimiter = next((d for d in delimiters if d in first), delimiters[0])
    reader = csv.DictReader(itertools.chain([first], text), delimiter=delimiter, strict=True)
    for row in reader:
        if None in row or None in row.values():
            raise ValueError("a row has more or fewer values than the header")
        yield row


def _parquet(file: SourceFile, columns: Sequence[str] | None) -> Iterator[Row]:
    import pyarrow.parquet

    # Without these settings, whole columns of a row group would be in memory.
    options: dict[str, Any] = {"buffer_size": 1 << 20, "pre_buffer": False}
    with pyarrow.parquet.ParquetFile(_arrow_file(file), **options) as rows:
        for batch in rows.iter_batches(_ROWS_AT_ONCE, columns=columns):
            yield from batch.to_pylist()


def _arrow(file: SourceFile, columns: Sequence[str] | None) -> Iterator[Row]:
    import pyarrow

    with _arrow_file(file) as rows:
        # Other programs write files; `datasets` writes streams.
        if rows.read(6) == b"ARROW1":
            reader = pyarrow.ipc.open_file(rows)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        else:
            rows.seek(0)
            batches = iter(pyarrow.ipc.open_stream(rows))
        for batch in batches:
            needed = batch.select(columns) if columns else batch
            for start in range(0, len(needed), _ROWS_AT_ONCE):
                yield from needed.slice(start, _ROWS_AT_ONCE).to_pylist()


def _arrow_file(file: SourceFile) -> Any:
    """Returns a file for pyarrow, which reads it in another order: from memory unless it is large."""
    import pyarrow

    is_small = os.fstat(file.fileno()).st_size <= _IN_MEMORY
    return pyarrow.BufferReader(file.content) if is_small else pyarrow.OSFile(str(file.path))


# Suffix → a function that yields the rows of a file; columns that are not needed may be left out.
READERS: dict[str, Callable[[SourceFile, Sequence[str] | None], Iterator[Any]]] = {
    ".jsonl": _json,
    ".ndjson": _json,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".arrow": _arrow,
}


def checked_blocks(file: SourceFile) -> Iterator[bytes]:
    """Yields the text of a file in blocks, without a byte order mark.

    Raises:
      UserError: the file is empty, or it is not text in UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_bytes, path = 0, file.path
    for block in itertools.chain(blocks(file), [b""]):
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


def blocks(file: SourceFile) -> Iterator[bytes]:
    """Yields the bytes of a file in blocks, none empty; raises UserError if it cannot be read."""
    suffix = file.path.suffix
    source = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if suffix == ".gz" else file
    read = iter(lambda: source.read(BLOCK_BYTES), b"")
    try:
        yield from _zstd_blocks(file) if suffix == ".zst" else read
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{file.path}: cannot be read: {reason}") from None


def _zstd_blocks(file: SourceFile) -> Iterator[bytes]:
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
