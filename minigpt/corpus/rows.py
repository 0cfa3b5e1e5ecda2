"""Files read in blocks of bytes, or row by row: JSON Lines, CSV, Parquet, Arrow, documents, and archives.

A new kind of file is a function in `READERS`, which yields rows such as {"text": "..."} from the blocks of
a file, decompressed by `blocks`. Documents are in `formats`. A file is refused at its first problem.
"""

import codecs
import csv
import gzip
import hashlib
import io
import itertools
import json
import re
import reprlib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from minigpt.corpus.chats import SPEAKERS, exported
from minigpt.corpus.formats import FORMATS, unpacked
from minigpt.environment import install_command
from minigpt.errors import UserError

BLOCK_BYTES = 1 << 20
# Few, because a block can decompress to thousands of times its size.
_ZSTD_BYTES = 1 << 14
COMPRESSIONS = (".gz", ".zst")
Row = dict[str, Any]
TEXT_COLUMN = "text"
# Columns of lists of messages, with the keys of their roles and texts; see `dialogues`.
DIALOGUE_COLUMNS = {"messages": ("role", "content"), "conversations": ("from", "value")}
# The columns of a question and of its answer.
QUESTIONS = [("instruction", "output"), ("question", "answer")]
QUESTIONS += [("prompt", "completion"), ("prompt", "response")]
# Rows of Parquet and Arrow that become Python objects at once.
_ROWS_AT_ONCE = 256
# Rows in which a column of texts is looked for.
_FIRST_ROWS = 100
# A quote that is never closed should not read a large file into memory.
_MAX_VALUE = 100_000_000
_NUMBER = re.compile(r"[-+.,:\d]+")
ZIP = ".zip"
# Names that are skipped: "~$" begins Word's lock files; `datasets` keeps copies beside a data set.
HIDDEN = re.compile(r"\.|__MAC|~\$|cache-.*\.arrow$")


class File(io.BufferedReader):
    """A file of the user, which is hashed while it is read from its beginning to its end.

    Args:
      content: that of a file of an archive, whose path is no file; None for one that is opened.
    Attributes:
      notes: what a user should know about how it was read.
    Raises:
      UserError: it cannot be opened.
    """

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        self.path, self.notes = path, list[str]()
        self._hash = hashlib.sha256()
        try:
            super().__init__(io.FileIO(path) if content is None else io.BytesIO(content))
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from None

    def read(self, size: int | None = -1, /) -> bytes:
        block = super().read(size)
        self._hash.update(block)
        return block

    def sha256(self) -> str:
        """Returns the SHA-256 of the whole file; reads what has not been read."""
        while self.read(BLOCK_BYTES):
            pass
        return self._hash.hexdigest()


def format_of(path: Path) -> str | None:
    """Returns the format of a file with rows or of a document, such as ".epub"; None for plain text."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz").removesuffix(".zst")).suffix
    return suffix if suffix in READERS or suffix in FORMATS else None


def is_dialogue(row: Row) -> bool:
    """Returns whether a row is a conversation of a chat, or has messages, or a question and an answer."""
    lists = [row[name] for name in DIALOGUE_COLUMNS if isinstance(row.get(name), list)]
    keys = set[str]().union(*(turn for turns in lists for turn in turns if isinstance(turn, dict)))
    has_shape = bool(keys & {"role", "value"}) or any(row.keys() >= {*pair} for pair in QUESTIONS)
    return SPEAKERS in row or (has_shape and TEXT_COLUMN not in row)


def members(file: File, suffixes: tuple[str, ...]) -> Iterator[File]:
    """Yields the files of a .zip with one of the suffixes, sorted by name and read into memory one by one.

    Hidden and empty files, and those whose names lead out of the archive, are skipped.
    """
    try:
        zipped = zipfile.ZipFile(io.BytesIO(file.read()))
        names = (info.filename for info in zipped.infolist() if info.file_size)
        found = (name for name in sorted(names) if name.lower().endswith(suffixes))
        shown = [name for name in found if not any(map(HIDDEN.match, name.split("/")))]
        if not shown:
            kinds = ", ".join(kind for kind in suffixes if not kind.endswith(COMPRESSIONS))
            raise UserError(f"{file.path}: has no files of the kinds {kinds}")
        for name, content in zip(shown, unpacked(zipped, shown), strict=True):
            # A name may contain line ends.
            yield File(Path(f"{file.path}/{ascii(name)[1:-1]}"), content)
    except Exception as error:
        raise _refusal(file.path, error) from None


def _refusal(path: Path, error: Exception, row: str = "") -> UserError:
    """Returns the error of a file that is not of its kind. Each library has exceptions of its own."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, ModuleNotFoundError):
        extra = "documents" if error.name == "pypdf" else "data"
        problem = f"{error.name} is not installed (extra {extra}): {install_command(extra)}"
        return UserError(f"{path.suffix.lower()}: {problem}")
    problem = (str(error) or type(error).__name__).splitlines()[0]
    return UserError(f"{path}: {row}not {format_of(path) or ZIP}: {problem}")


def open_rows(file: File, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Yields the columns of each row of a file whose format is in `READERS`.

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
    except Exception as error:
        raise _refusal(path, error, f"row {number + 1:,}: ") from None
    if not number:
        raise UserError(f"{path}: has no rows; should contain text")


def open_texts(file: File, field: str | None) -> Iterator[bytes]:
    """Yields the text of each row, and adds the name of its column to the notes of the file.

    Args:
      field: the column; None for the one that is called "text", or else that with the longest strings.
    Raises:
      UserError: with the problem of the file, or because there is no such column.
    """
    rows, path = open_rows(file), file.path
    first = list(itertools.islice(rows, _FIRST_ROWS))
    # Chats have no other columns.
    is_chat = SPEAKERS in first[0]
    if field is None and not is_chat and is_dialogue(first[0]):
        raise UserError(f"{path}: has dialogues; should be read with data.source = 'dialogues'")
    column = TEXT_COLUMN if is_chat else _text_column(first, path, field)
    if is_chat:
        file.notes.append("a chat: each conversation is a document")
    elif field is None:
        file.notes.append(f"the texts are those of the column {column!r}")
    # Other columns of these formats need not be read.
    is_columnar = format_of(path) in (".parquet", ".arrow")
    rows = open_rows(file, [column]) if is_columnar else itertools.chain(first, rows)
    for number, row in enumerate(rows, start=1):
        value = row.get(column)
        if not isinstance(value, str) or "\0" in value:
            problem = f"{column!r} should be a string of text: {reprlib.repr(value)}"
            raise UserError(f"{path}: row {number:,}: {problem}")
        # Half of a surrogate pair becomes a question mark.
        yield value.encode(errors="replace")


def _text_column(first: Sequence[Row], path: Path, field: str | None) -> str:
    names = {name: None for row in first for name in row}
    wanted = field or TEXT_COLUMN
    # Objects of JSON need not have the same names.
    if wanted in names or (field and "json" in str(format_of(path))):
        return wanted

    def length(name: str) -> tuple[int, int]:
        text = "".join(value for row in first if isinstance(value := row.get(name), str))
        # Addresses and hashes are long, and have no spaces. All values of CSV are strings, of numbers too.
        return text.count(" "), len(_NUMBER.sub("", text))

    *_, second, longest = ["", *sorted(names, key=length)]
    if field is None and length(second) < length(longest):
        return longest
    shown = ", ".join(map(repr, [*names][:20])) + ", ..." * (len(names) > 20)
    raise UserError(f"{path}: no column {wanted!r}; data.field: one of {shown}")


def _json(file: File, columns: Sequence[str] | None) -> Iterator[Any]:
    """Reads JSON Lines; or an array of objects, or an object that contains one, as a whole."""
    texts = filter(bytes.strip, lines(checked_blocks(file)))
    first, second = next(texts, b""), next(texts, b"")
    texts = filter(None, itertools.chain([first, second], texts))
    # An object in one line, and another one.
    is_lines = second and re.fullmatch(rb"\s*\{.*\}\s*", first)
    if is_lines or format_of(file.path) != ".json":
        return map(json.loads, texts)
    return iter(_rows_of(json.loads(b"\n".join(texts)), file))


def _rows_of(content: Any, file: File) -> list[Any]:
    """Returns the rows of an array or an object: a chat, its longest array, or the object itself."""
    if isinstance(content, dict):
        if chat := exported(content):
            return chat
        arrays = sorted(_arrays(content), key=lambda found: len(json.dumps(found[1])))
        if arrays and not is_dialogue(content) and not isinstance(content.get(TEXT_COLUMN), str):
            path, content = arrays[-1]
            file.notes.append(f"the rows are those of the array {path!r}")
    found = content if isinstance(content, list) else [content]
    return [{TEXT_COLUMN: each} if isinstance(each, str) else each for each in found]


def _arrays(content: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yields the arrays of objects or of strings in an object, with their paths, such as "data.rows"."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from _arrays(value, f"{path}{name}.")
        elif isinstance(value, list) and {type(each) for each in value} in ({dict}, {str}):
            yield f"{path}{name}", value


def _csv(file: File, columns: Sequence[str] | None) -> Iterator[Row]:
    # The limit is the process's. The module's own, 128 KB, is too small for a document.
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_VALUE))
    decoded = (f"{line.decode()}\n" for line in lines(checked_blocks(file)))
    text = itertools.dropwhile(str.isspace, decoded)
    first = next(text, "")
    # Excel writes and reads a line before the header that names the delimiter.
    if named := re.fullmatch('"?sep=(.)"?\n', first):
        first = next(text, "")
    delimiters = named[1] if named else "\t" if format_of(file.path) == ".tsv" else ",;\t"
    # Names in quotes may contain others.
    delimiter = max(delimiters, key=re.sub('"[^"]*"', "", first).count)
    reader = csv.DictReader(itertools.chain([first], text), delimiter=delimiter, strict=True)
    for row in reader:
        if None in row or None in row.values():
            raise ValueError("a row has more or fewer values than the header")
        yield row


def _arrow(file: File, columns: Sequence[str] | None) -> Iterator[Row]:
    """Reads Parquet and Arrow."""
    import pyarrow.parquet

    # pyarrow reads in another order than a file is hashed.
    is_file = file.path.is_file()
    with pyarrow.OSFile(str(file.path)) if is_file else pyarrow.PythonFile(file) as source:
        if format_of(file.path) == ".parquet":
            # Without these settings, whole columns of a row group would be in memory.
            options: dict[str, Any] = {"buffer_size": 1 << 20, "pre_buffer": False}
            table = pyarrow.parquet.ParquetFile(source, **options)
            batches = table.iter_batches(_ROWS_AT_ONCE, columns=columns)
        # Other programs write files of Arrow; `datasets` writes streams.
        elif source.read(6) == b"ARROW1":
            reader = pyarrow.ipc.open_file(source)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        else:
            source.seek(0)
            batches = iter(pyarrow.ipc.open_stream(source))
        for batch in batches:
            needed = batch.select(columns) if columns else batch
            for start in range(0, len(needed), _ROWS_AT_ONCE):
                yield from needed.slice(start, _ROWS_AT_ONCE).to_pylist()


# Suffix → a function that yields the rows of a file; columns that are not needed may be left out.
READERS: dict[str, Callable[[File, Sequence[str] | None], Iterator[Any]]] = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), _json),
    **dict.fromkeys((".csv", ".tsv"), _csv),
    **dict.fromkeys((".parquet", ".arrow"), _arrow),
}


def checked_blocks(file: File) -> Iterator[bytes]:
    """Yields the text of a file, also of a document, in blocks of UTF-8, without a byte order mark.

    Text in UTF-16 that begins with a byte order mark becomes UTF-8. CR LF and CR become LF.

    Raises:
      UserError: the file has no text, or it is not text in UTF-8 or a document of its kind.
    """
    path, n_bytes = file.path, 0
    source = _document(file) if format_of(path) in FORMATS else blocks(file)
    first = next(source, b"")
    first += next(source, b"") if len(first) == 1 else b""
    if first.startswith(b"{\\rtf"):
        raise UserError(f"{path}: is Rich Text; should be saved as .docx, .odt or .txt")
    if path.name.lower().endswith((".xml", ".xml.gz", ".xml.zst")):
        raise UserError(f"{path}: is XML, whose tags would be learned; should be saved as .txt")
    if not first:
        raise UserError(f"{path}: has no text; should contain text")
    is_utf16 = first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "UTF-16" if is_utf16 else "UTF-8"
    decode = codecs.getincrementaldecoder("utf-16" if is_utf16 else "utf-8-sig")()
    decoder = io.IncrementalNewlineDecoder(decode, translate=True)
    for block in itertools.chain([first], source, [b""]):
        try:
            text: str = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            place = n_bytes + len(block) - len(error.object) + error.start
            problem = f"is not text in {encoding}: {error.reason} at byte {place:,}"
            raise UserError(f"{path}: {problem}") from None
        if "\0" in text:
            raise UserError(f"{path}: has bytes of value 0; should be text in {encoding}")
        if text:
            yield text.encode()
        n_bytes += len(block)


def _document(file: File) -> Iterator[bytes]:
    """Yields the text of a document in UTF-8; see `formats`."""
    try:
        text = FORMATS[format_of(file.path) or ""](b"".join(blocks(file))).strip()
    except Exception as error:
        raise _refusal(file.path, error) from None
    # Half of a surrogate pair becomes a question mark.
    yield text.encode(errors="replace")


def blocks(file: File) -> Iterator[bytes]:
    """Yields the bytes of a file in blocks, none empty; raises UserError if it cannot be read."""
    suffix = file.path.suffix.lower()
    source = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if suffix == ".gz" else file
    read = iter(lambda: source.read(BLOCK_BYTES), b"")
    try:
        yield from filter(None, _zstd_blocks(file)) if suffix == ".zst" else read
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{file.path}: cannot be read: {reason}") from None


def _zstd_blocks(file: File) -> Iterator[bytes]:
    # Unlike `stream_reader`, an object for each frame tells whether the frame is complete.
    frame, compressed = zstandard.ZstdDecompressor().decompressobj(), b""
    while compressed or (compressed := file.read(_ZSTD_BYTES)):
        frame = zstandard.ZstdDecompressor().decompressobj() if frame.eof else frame
        yield frame.decompress(compressed)
        compressed = frame.unused_data
    if not frame.eof:
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
