"""The user's own text files: found, checked, read in pieces; all that is wrong told together."""

import codecs
import glob
import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, ClassVar, cast

from minigpt.corpus.documents import Piece
from minigpt.errors import UserError

_BLOCK_BYTES = 1 << 20
_WILD = frozenset("*?[")


class TextFiles:
    """Files, folders (every `*.txt` below) and globs; `.gz` files are unpacked while they are read.

    A file is a document; with a separator, each stretch between two separators is one.
    """

    # What is read of a folder.
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)

    def __init__(self, paths: Sequence[str | Path], separator: str | None = None):
        self._separator = separator.encode() if separator else None
        self._files: list[Path] = []
        self._problems: list[str] = []
        seen = set()
        for path in paths:
            found = _find(str(path), self.suffixes)
            if not found:
                self._problems.append(_nothing_found(str(path), self.suffixes))
            for file in found:
                # Named twice, a text would stand on both sides of the split.
                if (real := file.resolve()) in seen:
                    continue
                seen.add(real)
                if file.is_file():
                    self._files.append(file)
                else:
                    # A pipe could not be read twice: once to know it, once to use it.
                    self._problems.append(f"{file}: not a regular file")

    def check_found(self) -> None:
        """Looks at no content.

        Raises:
          UserError: with every path that names nothing, one line each.
        """
        if self._problems:
            raise UserError(*self._problems)

    def fingerprint(self) -> str:
        """SHA-256 over the files' bytes and order; their names count only for being `.gz` or not.

        Raises:
          UserError: with everything that is wrong with the files, one line each.
        """
        total = hashlib.sha256()
        try:
            for path in self._files:
                with open(path, "rb") as file:
                    total.update(b"gz" if _is_gzip(path) else b"plain")
                    total.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            self._check()
            raise UserError(f"{error.filename}: {error.strerror}") from None
        if self._problems:
            self._check()
        return total.hexdigest()

    def pieces(self) -> Iterator[Piece]:
        """The documents, checked to be UTF-8 on the way, without byte order marks.

        Raises:
          UserError: at the end, with everything that is wrong with the files, one line each.
        """
        problems = list(self._problems)
        for path in self._files:
            try:
                yield from self._documents(path)
            except UserError as error:
                problems += error.problems
        if problems:
            raise UserError(*problems)

    def _documents(self, path: Path) -> Iterator[Piece]:
        """The documents of one file; UserError with all that is wrong with it."""
        blocks = checked_blocks(path)
        if self._separator:
            yield from _separated(blocks, self._separator)
        else:
            yield from (Piece(block, False) for block in blocks)
            yield Piece(b"", True)

    def _check(self) -> None:
        for _ in self.pieces():
            pass


def _find(path: str, suffixes: tuple[str, ...]) -> list[Path]:
    named = Path(path).expanduser()
    if os.path.exists(named):
        matches = [named]
    elif _WILD.intersection(path):
        matches = sorted(Path(match) for match in glob.glob(str(named), recursive=True))
    else:
        matches = []
    return [
        file
        for match in matches
        for file in (_below(match, suffixes) if match.is_dir() else [match])
    ]


def _below(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(f for f in folder.rglob("*") if f.suffix in suffixes and not f.is_dir())


def _nothing_found(path: str, suffixes: tuple[str, ...]) -> str:
    if os.path.isdir(Path(path).expanduser()):
        kinds = " or ".join(f"*{suffix}" for suffix in suffixes)
        return f"{path}: a folder without any {kinds} below it"
    if _WILD.intersection(path):
        return f"{path}: no file matches"
    return f"{path}: no such file or folder"


def _is_gzip(path: Path) -> bool:
    return path.suffix == ".gz"


def checked_blocks(path: Path) -> Iterator[bytes]:
    """The text of a file in blocks, none empty; UserError at the first fault."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    read = lines = 0
    held = b""
    for block in _blocks(path):
        if read == 0 and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UserError(f"{path}: not valid UTF-8 at byte 0 (line 1){_UTF16_HINT}")
        if (place := block.find(b"\0")) >= 0:
            line = lines + block.count(b"\n", 0, place) + 1
            hint = _UTF16_HINT if _alternates(block) else "; should be text in UTF-8"
            raise UserError(f"{path}: binary file: NUL at byte {read + place} (line {line}){hint}")
        held = decoder.getstate()[0]
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            raise _not_utf8(path, read - len(held) + error.start, lines, error) from None
        yield block.removeprefix(codecs.BOM_UTF8) if read == 0 else block
        read += len(block)
        lines += block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, read - len(error.object) + error.start, lines, error) from None
    if read == 0:
        raise UserError(f"{path}: empty; should hold text")


def _not_utf8(path: Path, place: int, lines: int, error: UnicodeDecodeError) -> UserError:
    line = lines + error.object.count(b"\n", 0, error.start) + 1
    return UserError(
        f"{path}: not valid UTF-8 at byte {place} (line {line}): {error.reason};"
        " convert it, such as with iconv -t UTF-8"
    )


_UTF16_HINT = "; it looks like UTF-16: convert it with iconv -f UTF-16 -t UTF-8"


def _alternates(block: bytes) -> bool:
    """Whether NUL is in most even or most odd places, as in UTF-16 of a Latin script."""
    head = block[:1000]
    return any(2 * head[odd::2].count(0) > len(head[odd::2]) > 0 for odd in (0, 1)) and not (
        head.count(0) * 4 > len(head) * 3
    )


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) if _is_gzip(path) else open(path, "rb") as file:
            while block := cast(IO[bytes], file).read(_BLOCK_BYTES):
                yield block
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: broken .gz file: {error}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def _separated(blocks: Iterable[bytes], separator: bytes) -> Iterator[Piece]:
    rest = b""
    for block in blocks:
        *documents, rest = (rest + block).split(separator)
        yield from (Piece(document, True) for document in documents)
        # The separator may lie across two blocks.
        safe = max(0, len(rest) - len(separator) + 1)
        yield Piece(rest[:safe], False)
        rest = rest[safe:]
    yield Piece(rest, True)
