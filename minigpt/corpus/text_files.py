"""The user's files of text or of pairs: finds them, checks them and reads them in pieces.

All problems are reported at once.
"""

import codecs
import glob
import gzip
import hashlib
import itertools
import logging
import os
import shlex
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, ClassVar, cast

from minigpt.corpus.documents import Documents, Piece, ingest
from minigpt.errors import ArgumentProblem, UserError

_BLOCK_BYTES = 1 << 20
_WILDCARDS = frozenset("*?[")
_NOT_REGULAR = "not a regular file"

logger = logging.getLogger(__name__)


class TextFiles:
    """Files, folders (every `*.txt` below) and globs; `.gz` files are decompressed while being read.

    Every file is one document; with a separator, the text between two separators is one.

    In a folder, hidden files (their name, or that of a sub-folder, begins with a dot) are skipped, and so
    are links that lead out of it. The matches of a glob must not lead out of the folder before its first
    wildcard. A file or link that is named itself is read.

    Args:
      paths: files, folders and globs.
      separator: text between two documents of a file.
    Raises:
      UserError: `paths` is a single string or path.
    """

    # File names read from a folder.
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    # Formats whose names, quotes and separators would be learned as text.
    structured: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson", ".csv", ".tsv")

    def __init__(self, paths: Sequence[str | Path], separator: str | None = None):
        if (
            isinstance(paths, str | bytes)
            or not isinstance(paths, Sequence)
            or not all(isinstance(path, str | os.PathLike) for path in paths)
        ):
            raise UserError(
                ArgumentProblem("paths", paths, "should be a list of paths, such as ['book.txt']")
            )
        self._separator = separator.encode() if separator else None
        self._files: list[Path] = []
        self._problems: list[str] = []
        self._skipped = _Skipped()
        seen = set()
        for path in paths:
            skipped = _Skipped()
            found = _find(str(path), self.suffixes, skipped)
            self._skipped.add(skipped)
            if not found:
                problem = _nothing_found(str(path), self.suffixes)
                self._problems.append(f"{problem}; {skipped}" if skipped else problem)
            for file in found:
                # If a file is named twice, its copy could be on the other side of the split.
                if (real := _real(file)) in seen:
                    continue
                seen.add(real)
                if file.is_file():
                    self._files.append(file)
                else:
                    # A pipe cannot be read twice: once for the fingerprint, once for the text.
                    broken = file.is_symlink() and not file.exists()
                    self._problems.append(f"{file}: {'a broken link' if broken else _NOT_REGULAR}")
        # A link to a folder is not among the files.
        self._skipped.remove(seen | {_real(Path(path).expanduser()) for path in paths})

    def log_notes(self) -> None:
        """Logs which files are skipped, and which ones have a format that is not interpreted."""
        if self._skipped:
            logger.info("%s", self._skipped)
        names = (str(file).lower().removesuffix(".gz") for file in self._files)
        files = [
            file
            for file, name in zip(self._files, names, strict=True)
            if name.endswith(self.structured)
        ]
        if files:
            more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
            logger.warning(
                "%s%s: read as plain text, with all names, quotes and separators of the format; to train "
                "on its texts only, write them to a .txt file",
                files[0],
                more,
            )

    def check_found(self) -> None:
        """Checks that every path leads to a file, without reading any.

        Raises:
          UserError: with every path that leads to no file, one line each.
        """
        if self._problems:
            raise UserError(*self._problems)

    def fingerprint(self) -> str:
        """Returns the SHA-256 of the files' bytes and order, and of the suffix `.gz` of their names.

        Raises:
          UserError: with all problems of the files, one line each.
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
        """Yields the documents, checked to be UTF-8, without byte order marks.

        Raises:
          UserError: at the end, with all problems of the files, one line each.
        """
        problems = list(self._problems)
        for path in self._files:
            try:
                yield from self._documents(path)
            except UserError as error:
                problems += error.problems
        if problems:
            raise UserError(*problems)

    def find(self, text: bytes) -> tuple[Path, int] | None:
        """Returns the first file that contains a text, and the line, from 1, where it begins.

        Raises:
          UserError: a file cannot be read.
        """
        for path in self._files:
            lines, rest = 1, b""
            for block in _blocks(path):
                block = rest + block
                if (position := block.find(text)) >= 0:
                    return path, lines + block.count(b"\n", 0, position)
                rest = block[max(0, len(block) - len(text) + 1) :]
                lines += block.count(b"\n", 0, len(block) - len(rest))
        return None

    def _documents(self, path: Path) -> Iterator[Piece]:
        """Yields the documents of one file; raises UserError with all its problems."""
        blocks = checked_blocks(path)
        if self._separator:
            yield from _separated(blocks, self._separator)
        else:
            yield from (Piece(block, False) for block in blocks)
            yield Piece(b"", True)

    def _check(self) -> None:
        for _ in self.pieces():
            pass


def read_texts(paths: Sequence[str | Path], separator: str | None = None) -> Documents:
    """Returns the documents of the user's files, as `data.source = "files"` reads them.

    Raises:
      UserError: with all problems of the files, one line each, or because they contain no text.
    """
    files = TextFiles(paths, separator)
    files.log_notes()
    documents = ingest(files.pieces())
    if not len(documents):
        raise UserError(f"{', '.join(map(str, paths))}: only white space; should contain text")
    return documents


class _Skipped:
    """Files and links that are not read, because they were found in a folder instead of being named."""

    def __init__(self) -> None:
        self.hidden: set[Path] = set()
        self.links: set[Path] = set()

    def __bool__(self) -> bool:
        return bool(self.hidden or self.links)

    def __str__(self) -> str:
        kinds = []
        if hidden := len(self.hidden):
            kinds.append("1 hidden file" if hidden == 1 else f"{hidden:,} hidden files")
        if links := len(self.links):
            kinds.append(
                f"{links:,} {'link that leads' if links == 1 else 'links that lead'} out of the folder"
            )
        verb = "is" if len(self.hidden) + len(self.links) == 1 else "are"
        return f"{' and '.join(kinds)} {verb} skipped; to read one, give its own path"

    def add(self, other: "_Skipped") -> None:
        self.hidden |= other.hidden
        self.links |= other.links

    def remove(self, read: set[Path]) -> None:
        """Removes those that were also named themselves, by their real paths."""
        self.hidden = {file for file in self.hidden if _real(file) not in read}
        self.links = {link for link in self.links if _real(link) not in read}


def _find(path: str, suffixes: tuple[str, ...], skipped: _Skipped) -> list[Path]:
    """Returns the files of a path, and adds to `skipped` those that are not read."""
    expanded = Path(path).expanduser()
    # Path("") would be the working folder.
    if path and os.path.exists(expanded):
        return _below(expanded, suffixes, skipped) if expanded.is_dir() else [expanded]
    files: list[Path] = []
    if _WILDCARDS.intersection(path):
        parts = itertools.takewhile(lambda part: not _WILDCARDS.intersection(part), expanded.parts)
        folder = _real(Path(*parts))
        matches: dict[Path, Path] = {}
        # With links in a circle a file has many paths. The longest cannot be opened.
        found = map(Path, glob.glob(str(expanded), recursive=True))
        for match in sorted(found, key=lambda path: (len(path.parts), path)):
            matches.setdefault(_real(match), match)
        for match in sorted(matches.values()):
            if not _real(match).is_relative_to(folder):
                skipped.links.add(match)
            elif match.is_dir():
                files += _below(match, suffixes, skipped)
            else:
                files.append(match)
    return files


def _below(folder: Path, suffixes: tuple[str, ...], skipped: _Skipped) -> list[Path]:
    """Returns the files below a folder. Links to folders are not followed."""
    real_folder, files = _real(folder), []
    for parent, folders, names in os.walk(folder):
        linked = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        candidates = [name for name in names if name.endswith(suffixes)]
        for path in (Path(parent, name) for name in linked + candidates):
            if path.is_symlink() and not _real(path).is_relative_to(real_folder):
                skipped.links.add(path)
            elif path.name in linked:
                continue  # Its files are found where they are.
            elif any(part.startswith(".") for part in path.relative_to(folder).parts):
                skipped.hidden.add(path)
            else:
                files.append(path)
    return sorted(files)


def _real(path: Path) -> Path:
    # Unlike this, `Path.resolve` fails if links form a circle.
    return Path(os.path.realpath(path))


def _nothing_found(path: str, suffixes: tuple[str, ...]) -> str:
    if not path:
        return ArgumentProblem("paths", path, "should name a file, a folder or a glob")
    if os.path.isdir(Path(path).expanduser()):
        kinds = " or ".join(f"*{suffix}" for suffix in suffixes)
        return f"{path}: a folder without any {kinds} below it"
    if _WILDCARDS.intersection(path):
        return f"{path}: no file matches"
    return f"{path}: no such file or folder"


def _is_gzip(path: Path) -> bool:
    return path.suffix == ".gz"


def checked_blocks(path: Path) -> Iterator[bytes]:
    """Yields the text of a file in blocks, none empty; raises UserError at the first problem."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_bytes = n_lines = 0
    for block in _blocks(path):
        if n_bytes == 0 and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UserError(f"{path}: not valid UTF-8 at byte 0 (line 1){_utf16_hint(path)}")
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


def _not_utf8(path: Path, position: int, n_lines: int, error: UnicodeDecodeError) -> UserError:
    line = n_lines + error.object.count(b"\n", 0, error.start) + 1
    return UserError(
        f"{path}: not valid UTF-8 at byte {position} (line {line}): {error.reason};"
        " convert it, for example with iconv -t UTF-8"
    )


def _utf16_hint(path: Path) -> str:
    file, new = shlex.quote(str(path)), shlex.quote(str(path.with_suffix(".utf-8.txt")))
    read = f"gzip -dc {file} | iconv" if _is_gzip(path) else f"iconv {file}"
    return f"; it looks like UTF-16: convert it with: {read} -f UTF-16 -t UTF-8 > {new}"


def _looks_like_utf16(block: bytes) -> bool:
    """Returns whether most even or most odd bytes are NUL, as in UTF-16 of a Latin script."""
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
        # The separator can span two blocks.
        complete = max(0, len(rest) - len(separator) + 1)
        yield Piece(rest[:complete], False)
        rest = rest[complete:]
    yield Piece(rest, True)


MAX_LINES_SHOWN = 5


class PairFiles(TextFiles):
    """Files, folders (every `*.tsv` and `*.txt` below) and globs with SOURCE tab TARGET on each line.

    Every sentence is a document, each source before its target, stripped of white space at both ends.
    Additional columns, such as Tatoeba's attribution, are ignored; a message about them is logged.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".tsv", ".txt")
    structured: ClassVar[tuple[str, ...]] = ()  # A line without a tab is refused.

    def _documents(self, path: Path) -> Iterator[Piece]:
        faults: dict[str, list[int]] = {}
        lines_with_more_columns = 0
        for number, line in enumerate(_lines(checked_blocks(path)), start=1):
            columns = line.split(b"\t")
            source, target = (column.strip() for column in [*columns, b""][:2])
            if source and target:
                lines_with_more_columns += len(columns) > 2
                yield Piece(source, True)
                yield Piece(target, True)
                continue
            side = "target" if source else "source"
            fault = "no tab" if len(columns) < 2 else f"an empty {side} sentence"
            faults.setdefault(fault, []).append(number)
        if faults:
            raise UserError(*(_fault(path, fault, lines) for fault, lines in faults.items()))
        if lines_with_more_columns:
            logger.info(
                "%s: %s more than two columns; only the first two are read",
                path,
                _lines_have(lines_with_more_columns),
            )


def read_pairs(paths: Sequence[str | Path]) -> Documents:
    """Returns the sentences of the user's pair files, sources and targets in turn.

    Raises:
      UserError: with all problems of the files, one line each.
    """
    files = PairFiles(paths)
    files.log_notes()
    return ingest(files.pieces())


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _fault(path: Path, fault: str, lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:MAX_LINES_SHOWN]))
    more = f" and {len(lines) - MAX_LINES_SHOWN:,} more" if len(lines) > MAX_LINES_SHOWN else ""
    return (
        f"{path}: {_lines_have(len(lines))} {fault} (line{'s' * (len(lines) > 1)} {shown}{more});"
        " each should be SOURCE, a tab, TARGET"
    )


def _lines_have(count: int) -> str:
    return "1 line has" if count == 1 else f"{count:,} lines have"
