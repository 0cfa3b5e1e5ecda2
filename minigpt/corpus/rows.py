"""Files read in blocks of bytes, or row by row: JSON Lines, CSV, Parquet and Arrow.

`.gz` and `.zst` are decompressed. A row has the number that its file shows for it: the line of JSON Lines;
the row of CSV, of which the header is the first; the row of Parquet and Arrow, from 1.
"""

import codecs
import csv
import gzip
import itertools
import json
import re
import reprlib
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from minigpt.environment import install_command
from minigpt.errors import UserError, gathering

BLOCK_BYTES = 1 << 20
# Few, because a block can decompress to thousands of times its size.
_ZSTD_BYTES = 1 << 14
COMPRESSIONS = (".gz", ".zst")
Row = tuple[int, dict[str, Any]]
TEXT_COLUMN = "text"
# Columns of lists of messages; see `dialogues`.
DIALOGUE_COLUMNS = ("messages", "conversations")
# Rows of Parquet and Arrow that become Python objects at once.
_ROWS_AT_ONCE = 256
# A quote that is never closed should not read a large file into memory.
_MAX_VALUE = 100_000_000
_NUMBER = re.compile(r"[-+.,\deE]*")
# Half of a surrogate pair, such as \\ud800 in JSON, as Python encodes it.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")


class Faults:
    """The problems of a file. Rows with problems of the same kind become one line.

    Args:
      path: the file.
      object_hint: what a row of JSON should be.
    """

    def __init__(
        self, path: Path, object_hint: str = 'should be an object like {"text": "..."}'
    ) -> None:
        self._path = path
        self.object_hint = object_hint
        self.of_file: list[str] = []
        # Kind → number and problem of the first row, number of rows.
        self.of_rows: dict[str, tuple[int, str, int]] = {}

    def add(self, row: int, reason: str, details: object = "") -> None:
        """Adds the problem of a row.

        Its kind is what would be right (the reason from the last "should"), or else the whole reason. What
        precedes it, and the details, are shown for the first row only.
        """
        kind = reason[max(0, reason.rfind("should")) :]
        problem = f"{reason}: {details}" if details else reason
        first, shown, count = self.of_rows.get(kind, (row, problem, 0))
        self.of_rows[kind] = (first, shown, count + 1)

    def check(self) -> None:
        """Raises a `UserError` with all problems, one line each."""
        found = [
            f"{self._path}: row {row:,}{f' and {n - 1:,} more row' + 's' * (n > 2) if n > 1 else ''}: "
            + problem
            for row, problem, n in self.of_rows.values()
        ]
        if found or self.of_file:
            raise UserError(*found, *self.of_file)


def format_of(path: Path) -> str | None:
    """Returns the format of a file with rows, such as ".jsonl"; None for plain text."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz").removesuffix(".zst")).suffix
    return suffix if suffix in _READERS else None


def open_rows(path: Path, faults: Faults, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Yields number and columns of each row of a file that has a format; see `format_of`.

    Args:
      path: the file.
      faults: receives the problems of the file, and those of the rows that are left out.
      columns: those that are needed; others may be left out. None for all.
    """
    has_rows = False
    with gathering(faults.of_file):
        for row in _READERS[format_of(path) or ""](path, faults, columns):
            has_rows = True
            yield row
        if not has_rows and not faults.of_rows:
            raise UserError(f"{path}: has no rows; should contain text")


def open_texts(path: Path, field: str | None, faults: Faults) -> Iterator[tuple[int, bytes]]:
    """Yields number and text of each row: its value in the column `field`; see `text_column`."""
    with gathering(faults.of_file):
        field = text_column(path, field)
    for number, row in open_rows(path, faults, [field]) if not faults.of_file else ():
        value = row.get(field)
        text = value.encode(errors="surrogatepass") if isinstance(value, str) else None
        if text is None:
            shown = reprlib.repr(value) if field in row else "missing"
            faults.add(number, f"{field!r} should be a string", shown)
        elif b"\0" in text or (not text.isascii() and _SURROGATE.search(text)):
            faults.add(number, f"{field!r} should contain no NUL and no half of a surrogate pair")
        else:
            yield number, text


def text_column(path: Path, field: str | None = None) -> str:
    """Returns the column of a file's texts.

    Args:
      path: a file with a format.
      field: the column; None for the one that is called "text", or else the only one of strings.
    Raises:
      UserError: with the problems of the file, or because there is no such column.
    """
    faults = Faults(path)
    values: dict[str, Any] = {}
    for _, row in itertools.islice(open_rows(path, faults), 100):
        values |= {name: value for name, value in row.items() if values.get(name) is None}
    if not values:
        faults.check()
    # All values of CSV are strings, of numbers too.
    names = [n for n, v in values.items() if isinstance(v, str) and not _NUMBER.fullmatch(v)]
    names = names or list(values)
    has_dialogues = any(isinstance(values.get(name), list) for name in DIALOGUE_COLUMNS)
    if field is None and (TEXT_COLUMN in values or (len(names) == 1 and not has_dialogues)):
        return TEXT_COLUMN if TEXT_COLUMN in values else names[0]
    # Objects of JSON need not have the same names.
    if field and (field in values or "json" in str(format_of(path))):
        return field
    shown = ", ".join(map(repr, names[:20])) + ", ..." * (len(names) > 20)
    if field is None and has_dialogues:
        raise UserError(f"{path}: has dialogues; only data.source = 'dialogues' reads them")
    raise UserError(f"{path}: no column {field or TEXT_COLUMN!r}; data.field: one of {shown}")


def _json_lines(path: Path, faults: Faults, columns: Sequence[str] | None) -> Iterator[Row]:
    for number, line in enumerate(lines(blocks(path)), start=1):
        if not (line := line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip():
            continue
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            if _looks_like_utf16(line):
                raise UserError(f"{path}: not valid UTF-8{_utf16_hint(path)}") from None
            if isinstance(error, UnicodeDecodeError):
                place = f"{error.reason} at byte {error.start} of the line"
                faults.add(number, "not valid UTF-8", place + _latin1_hint(path))
            else:
                reason = str(error).replace("line 1 column", "column")
                faults.add(number, "not valid JSON", reason)
        else:
            yield from _objects(number, value, faults)


def _objects(number: int, value: Any, faults: Faults) -> Iterator[Row]:
    if isinstance(value, dict):
        yield number, value
    else:
        faults.add(number, faults.object_hint, reprlib.repr(value))


def _json(path: Path, faults: Faults, columns: Sequence[str] | None) -> Iterator[Row]:
    """Reads JSON Lines, or one array of objects, which is read as a whole."""
    head = next(checked_blocks(path)).lstrip()
    if not head.startswith(b"["):
        first, ended, _ = head.partition(b"\n")
        if ended and first.startswith(b"{") and first.rstrip()[-1:] in b"{[,:":
            raise UserError(f"{path}: an object on several lines; should be an array of objects")
        yield from _json_lines(path, faults, columns)
        return
    if path.stat().st_size > 1_000_000_000:
        raise UserError(f"{path}: a large array; should be JSON Lines: jq -c '.[]' writes them")
    try:
        values = json.loads(b"".join(checked_blocks(path)))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON: {error}") from None
    for number, value in enumerate(values, start=1):
        yield from _objects(number, value, faults)


def _csv(path: Path, faults: Faults, columns: Sequence[str] | None) -> Iterator[Row]:
    # The limit is the process's. The module's own, 128 KB, is too small for a document.
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_VALUE))
    # A line can end with CR alone, as those of Excel on old Macs do. Quoted ones are kept.
    parts = ((line + b"\n").splitlines(keepends=True) for line in lines(checked_blocks(path)))
    text = map(bytes.decode, itertools.chain.from_iterable(parts))
    first = next(text, "")
    delimiters = "\t" if format_of(path) == ".tsv" else ",;\t"
    delimiter = next((d for d in delimiters if d in first), delimiters[0])
    records = csv.reader(itertools.chain([first], text), delimiter=delimiter, strict=True)
    header: list[str] = []
    for number in itertools.count(1):
        try:
            record = next(records, None)
        except csv.Error as error:
            faults.add(
                number, str(error).replace("unexpected end of data", "a quote is not closed")
            )
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
        raise UserError(f"{kind}: pyarrow is not installed: {install_command('data')}") from None
    try:
        yield pyarrow
    except (OSError, pyarrow.ArrowException) as error:
        reason, _, _ = str(error).partition("\n")
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


_READERS: dict[str, Callable[[Path, Faults, Sequence[str] | None], Iterator[Row]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".arrow": _arrow,
}


def checked_blocks(path: Path) -> Iterator[bytes]:
    """Yields the text of a file in blocks, none empty; raises UserError at the first problem."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_bytes = n_lines = 0
    for block in blocks(path):
        if (position := block.find(b"\0")) >= 0:
            line = n_lines + block.count(b"\n", 0, position) + 1
            hint = _utf16_hint(path) if _looks_like_utf16(block) else "; should be text in UTF-8"
            raise UserError(
                f"{path}: binary file: NUL at byte {n_bytes + position} (line {line}){hint}"
            )
        pending = decoder.getstate()[0]
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            position = n_bytes - len(pending) + error.start
            raise _not_utf8(path, position, n_lines, error) from None
        yield block.removeprefix(codecs.BOM_UTF8) if n_bytes == 0 else block
        n_bytes += len(block)
        n_lines += block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        position = n_bytes - len(error.object) + error.start
        raise _not_utf8(path, position, n_lines, error) from None
    if n_bytes == 0:
        raise UserError(f"{path}: empty; should contain text")


def blocks(path: Path) -> Iterator[bytes]:
    """Yields the bytes of a file in blocks; raises UserError if it is broken or in UTF-16."""
    try:
        with open(path, "rb") as file:
            for number, block in enumerate(_decompressed(file, path.suffix)):
                if number == 0 and (kind := _document_kind(block)):
                    raise UserError(f"{path}: {kind}; should be text: save or export it as .txt")
                if number == 0 and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise UserError(
                        f"{path}: not valid UTF-8 at byte 0 (line 1){_utf16_hint(path)}"
                    )
                yield block
    except (gzip.BadGzipFile, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise UserError(f"{path}: broken {path.suffix} file: {error}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def _document_kind(block: bytes) -> str | None:
    if block.startswith(b"PK\x03\x04"):
        return "a ZIP archive, such as .docx, .odt and .epub are"
    if block.startswith(b"{\\rtf"):
        return "a document in Rich Text Format"
    return "a PDF" if block.startswith(b"%PDF-") else None


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


def _not_utf8(path: Path, position: int, n_lines: int, error: UnicodeDecodeError) -> UserError:
    line = n_lines + error.object.count(b"\n", 0, error.start) + 1
    return UserError(
        f"{path}: not valid UTF-8 at byte {position} (line {line}): {error.reason}{_latin1_hint(path)}"
    )


def _latin1_hint(path: Path) -> str:
    return f"; if it is in Latin-1, convert it with: {_conversion(path, 'LATIN1')}"


def _utf16_hint(path: Path) -> str:
    return f"; it looks like UTF-16: convert it with: {_conversion(path, 'UTF-16')}"


def _conversion(path: Path, encoding: str) -> str:
    program = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    plain = path.with_suffix("") if program else path
    file, new = map(
        shlex.quote, (str(path), str(plain.with_suffix(f".utf-8{format_of(path) or '.txt'}")))
    )
    read = f"{program} -dc {file} | iconv" if program else f"iconv {file}"
    return f"{read} -f {encoding} -t UTF-8 > {new}"


def _looks_like_utf16(block: bytes) -> bool:
    """Returns whether most even or most odd bytes are NUL, as in UTF-16 of a Latin script."""
    head = block[:1000]
    return any(2 * head[odd::2].count(0) > len(head[odd::2]) > 0 for odd in (0, 1)) and not (
        head.count(0) * 4 > len(head) * 3
    )
