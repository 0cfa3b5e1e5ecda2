"""The user's files of text or of pairs: finds them, checks them and reads them in pieces.

The problems of all files are reported at once, one line for each file.
"""

import functools
import glob
import hashlib
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from minigpt.corpus import rows
from minigpt.corpus.chats import whatsapp
from minigpt.corpus.documents import Documents, Piece, ingest
from minigpt.corpus.formats import FORMATS
from minigpt.corpus.recognition import kind_of, without_license
from minigpt.errors import UserError, gathering
from minigpt.notices import LOGGER
from minigpt.storage.atomic import scratch_folder
from minigpt.storage.files import cache_folder, sha256_of

STANDARD_INPUT = "-"


class TextFiles:
    """Files, folders and globs; `.gz` and `.zst` files are decompressed while being read.

    A file of text is one document; with a separator, the text between two separators is one. A row of
    JSON Lines, CSV, Parquet and Arrow is one document, and so is each file of `formats`; see `rows`. The
    files of a .zip are read as those of a folder. "-" is standard input. By their beginning, three kinds of
    text are recognized: lists, of which each line is a document; chats, of which each conversation is one;
    and books of Project Gutenberg, whose licenses are left out.

    Of a folder, the files with one of `suffixes` are read, except empty files, hidden files and folders
    (`rows.HIDDEN`), run directories, and links that lead out of the folder. The matches of a glob must not
    lead out of the folder before its first wildcard. What is named itself is read.

    Args:
      paths: files, folders and globs.
      separator: text between two documents of a file of text.
      field: the column of the texts; None for the one that `rows.open_texts` finds.
      by_line: whether each line of a file of text is a document; None for lists only.
      keep_gutenberg: whether headers and licenses of Project Gutenberg are kept.
    Attributes:
      path_numbers: the number of the path that leads to each file.
      path_bytes: bytes of the documents of each path, known after `pieces`.
      problems: those that are known before a file is read, one line each.
    Raises:
      UserError: standard input cannot be read.
    """

    # File names read from a folder. Files of settings, too, are called .json: it is read if it is named.
    suffixes: ClassVar[tuple[str, ...]] = tuple(
        kind + compression
        for kind in (".txt", ".md", *rows.READERS, *FORMATS, rows.ZIP)
        for compression in ("", *rows.COMPRESSIONS)
        if kind != ".json" and (kind != rows.ZIP or not compression)
    )
    has_rows: ClassVar[bool] = True

    def __init__(
        self,
        paths: Sequence[str | Path],
        separator: str | None = None,
        field: str | None = None,
        by_line: bool | None = None,
        keep_gutenberg: bool = False,
    ):
        self._separator = separator.replace("\r\n", "\n").encode() if separator else None
        self._field, self._by_line, self._keep_gutenberg = field, by_line, keep_gutenberg
        self._hashes: dict[Path, str] = {}
        self.path_bytes = [0] * len(paths)
        self.problems: list[str] = []
        # A file that is named twice is read once: its copy could be on the other side of the split.
        files: dict[Path, tuple[Path, int]] = {}
        self._folders: dict[str, list[Path]] = {}
        for number, path in enumerate(map(str, paths)):
            found = _find(path, self.suffixes)
            for file in found:
                files.setdefault(_real(file), (file, number))
            if is_folder := os.path.isdir(os.path.expanduser(path)):
                self._folders[path] = found
            if not found:
                kinds = [kind for kind in self.suffixes if not kind.endswith(rows.COMPRESSIONS)]
                problem = f"has no files of the kinds {', '.join(kinds)}"
                problem = problem if is_folder else "no such file or folder"
                self.problems.append(f"{path or repr(path)}: {problem}")
        # The beginning of a pipe could not be read for `no_dialogues`.
        self._files = {file: number for file, number in files.values() if file.is_file()}
        others = (file for file, _ in files.values() if file not in self._files)
        self.problems += [f"{file}: not a regular file" for file in others]
        self.path_numbers = list(self._files.values())

    def fingerprint(self) -> str:
        """Returns the SHA-256 of the files' bytes, order and formats, and of the column of the texts.

        Files that `pieces` has read are not read again: the hash is that of what was read.

        Raises:
          OSError: a file cannot be read.
        """
        total = hashlib.sha256()
        formats = [rows.format_of(path) if self.has_rows else None for path in self._files]
        for path, kind in zip(self._files, formats, strict=True):
            suffix = path.suffix if path.suffix in rows.COMPRESSIONS else ".plain"
            total.update((kind or suffix[1:]).encode())
            total.update(bytes.fromhex(self._hashes.get(path) or sha256_of(path)))
        if self._field and any(formats):
            total.update(self._field.encode())
        if self._by_line is not None or self._keep_gutenberg:
            total.update(f"{self._by_line} {self._keep_gutenberg}".encode())
        return total.hexdigest()

    def pieces(self) -> Iterator[Piece]:
        """Yields the documents, checked to be UTF-8, without byte order marks.

        Messages say at the end how the files were read, such as which columns.

        Raises:
          UserError: at the end, with all problems of the files, one line each.
        """
        problems = list(self.problems)
        self.path_bytes = [0] * len(self.path_bytes)
        notes: dict[str, list[Path]] = {}
        for path, number in self._files.items():
            with gathering(problems), rows.File(path) as file:
                for part in self._parts(file):
                    for piece in self._documents(part):
                        self.path_bytes[number] += len(piece.text)
                        yield piece
                    for note in part.notes:
                        notes.setdefault(note, []).append(part.path)
                self._hashes[path] = file.sha256()
        if problems:
            # Every file that needs a missing package gives the same line.
            raise UserError(*dict.fromkeys(problems))
        for folder, read in self._folders.items():
            others = {*_below(Path(folder).expanduser(), ("",))} - {*read}
            kinds = ", ".join(sorted({file.suffix or file.name for file in others}))
            left_out = f"; not read: {kinds}" if others else ""
            total = len(read) + len(others)
            LOGGER.info(f"{folder}: {len(read):,} of {total:,} files read{left_out}")
        for note, files in notes.items():
            more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
            LOGGER.info("%s%s: %s", files[0], more, note)

    def read(self) -> Documents:
        """Returns the documents in a temporary file; raises UserError as `pieces`, and without text."""
        documents = ingest(self.pieces())
        if not len(documents):
            names = ", ".join(map(str, self._files))
            raise UserError(f"{names}: only white space; should contain text")
        return documents

    def _parts(self, file: rows.File) -> Iterator[rows.File]:
        """Yields the files of an archive, and any other file itself."""
        is_archive = self.has_rows and file.path.suffix.lower() == rows.ZIP
        # Those of a .zip in a .zip are not read.
        return rows.members(file, TextFiles.suffixes[:-1]) if is_archive else iter([file])

    def no_dialogues(self) -> Path | None:
        """Returns the first file that has no dialogues, or cannot be read; None if all have some."""
        for path in self._files:
            try:
                with rows.File(path) as file:
                    for part in self._parts(file):
                        # A document is parsed once, later.
                        skips = self._field or rows.format_of(part.path) in FORMATS
                        if skips or not rows.is_dialogue(next(self._dialogues(part), {})):
                            return part.path
            except UserError:
                return path
        return None

    def _dialogues(self, file: rows.File) -> Iterator[rows.Row]:
        """Yields the rows of a file, or the conversations of a chat."""
        if rows.format_of(file.path) in rows.READERS:
            yield from rows.open_rows(file)
            return
        kind, blocks = kind_of(rows.checked_blocks(file))
        if kind != "chat":
            raise UserError(f"{file.path}: should be a chat, or a file with rows, such as .jsonl")
        yield from whatsapp(b"".join(blocks).decode())

    def _documents(self, file: rows.File) -> Iterator[Piece]:
        """Yields the documents of one file; raises UserError with its first problem."""
        if rows.format_of(file.path) in rows.READERS:
            yield from (Piece(text, True) for text in rows.open_texts(file, self._field))
            return
        kind, blocks = kind_of(rows.checked_blocks(file))
        if kind == "chat":
            file.notes.append("a chat: each conversation is a document")
            chat = whatsapp(b"".join(blocks).decode())
            yield from (Piece(row[rows.TEXT_COLUMN].encode(), True) for row in chat)
            return
        by_line = self._by_line
        if kind == "lines" and by_line is None and not self._separator:
            by_line = True
            file.notes.append("a list: each line is a document, unless data.by_line = false")
        if kind == "gutenberg" and not self._keep_gutenberg:
            kept = "data.keep_gutenberg = true keeps it"
            file.notes.append(f"without the license of Project Gutenberg ({kept})")
            blocks = iter([without_license(blocks)])
        yield from _separated(blocks, b"\n" if by_line else self._separator)


def _find(path: str, suffixes: tuple[str, ...]) -> list[Path]:
    """Returns the files of a path."""
    if path == STANDARD_INPUT:
        return [standard_input()]
    name = os.path.expanduser(path)
    if os.path.exists(name):
        return _below(Path(name), suffixes) if os.path.isdir(name) else [Path(name)]
    base = Path(*itertools.takewhile(lambda part: not set("*?[") & set(part), Path(name).parts))
    found = map(Path, glob.glob(name, recursive=True))
    # With links in a circle a file has many paths. The longest cannot be opened.
    by_length = sorted(found, key=lambda path: (len(path.parts), path), reverse=True)
    matches = {_real(match): match for match in by_length}
    inside = sorted(m for real, m in matches.items() if real.is_relative_to(_real(base)))
    found_below = (_below(m, suffixes) if m.is_dir() else [m] for m in inside)
    return list(itertools.chain.from_iterable(found_below))


def _below(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Returns the files below a folder that are read. Links to folders are not followed."""
    files: list[Path] = []
    for parent, folders, names in os.walk(folder):
        # A run's JSON Lines are metrics and samples.
        if {"config.toml", "metrics.jsonl"} <= {*names} and Path(parent) != folder:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not rows.HIDDEN.match(name)]
        shown = (Path(parent, name) for name in names if not rows.HIDDEN.match(name))
        files += (path for path in shown if path.name.lower().endswith(suffixes))
    whole = _real(folder)
    inside = (f for f in files if not f.is_symlink() or _real(f).is_relative_to(whole))
    return sorted(file for file in inside if not file.is_file() or file.stat().st_size)


@functools.cache
def standard_input() -> Path:
    """Returns a file of the cache folder with the content of standard input, which can be read only once.

    Its name is the SHA-256 of the content. JSON Lines are recognized by their first line.
    """
    if not sys.stdin or sys.stdin.isatty():
        raise UserError("-: standard input is a terminal; should be a text from a pipe or a file")
    folder, suffix = cache_folder() / "stdin", ".txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_folder(folder) as scratch:
            with open(scratch / "text", "wb+") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
                file.seek(0)
                with suppress(ValueError, RecursionError):
                    if isinstance(json.loads(file.readline(1 << 20)), dict):
                        suffix = ".jsonl"
            path = folder / (sha256_of(scratch / "text") + suffix)
            os.replace(scratch / "text", path)
    except OSError as error:
        raise UserError(f"-: cannot be copied to {folder}: {error.strerror or error}") from None
    return path


def recorded_path(path: str) -> str:
    """Returns the absolute path with which a run finds the same text again."""
    return str(standard_input() if path == STANDARD_INPUT else Path(path).absolute())


def _real(path: Path) -> Path:
    # Unlike this, `Path.resolve` fails if links form a circle.
    return Path(os.path.realpath(path))


def _separated(blocks: Iterable[bytes], separator: bytes | None) -> Iterator[Piece]:
    rest = b""
    for block in blocks:
        if separator:
            *documents, rest = (rest + block).split(separator)
            yield from (Piece(document, True) for document in documents)
            # The separator can span two blocks.
            complete = max(0, len(rest) - len(separator) + 1)
            block, rest = rest[:complete], rest[complete:]
        yield Piece(block, False)
    yield Piece(rest, True)


class PairFiles(TextFiles):
    """Files, folders (every `*.tsv` and `*.txt` below) and globs with SOURCE tab TARGET on each line.

    Every sentence is a document, each source before its target, stripped of white space at both ends.
    Additional columns, such as Tatoeba's attribution, are ignored.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".tsv", ".txt")
    has_rows: ClassVar[bool] = False

    def _documents(self, file: rows.File) -> Iterator[Piece]:
        for number, line in enumerate(rows.lines(rows.checked_blocks(file)), start=1):
            sides = [column.strip() for column in line.split(b"\t")]
            if len(sides) < 2 or not all(sides[:2]):
                raise UserError(f"{file.path}: line {number:,}: should be SOURCE, a tab, TARGET")
            yield from (Piece(side, True) for side in sides[:2])
