"""The sources of text: one class each, with a fingerprint and the documents."""

import codecs
import hashlib
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from minigpt.config import (
    DataConfig,
    FilesConfig,
    ImdbConfig,
    PairsConfig,
    PythonConfig,
    ShakespeareConfig,
)
from minigpt.corpus.documents import Piece
from minigpt.corpus.downloaded import DownloadedText, Imdb
from minigpt.corpus.pair_files import PairFiles
from minigpt.corpus.stories import FINGERPRINT, stories
from minigpt.corpus.text_files import TextFiles


class Source(Protocol):
    def fingerprint(self) -> str:
        """Returns the SHA-256 of the bytes that determine the documents, not of names or dates."""

    def pieces(self) -> Iterator[Piece]:
        """Yields the documents, always in the same order.

        Raises:
          UserError: with all problems of the text, one line each.
        """


def open_source(data: DataConfig) -> Source:
    """Returns the source that `data.source` names."""
    match data:
        case FilesConfig():
            return TextFiles(data.paths, data.document_separator)
        case PairsConfig():
            return PairFiles(data.paths)
        case ImdbConfig():
            return Imdb(data.url, data.sha256)
        case ShakespeareConfig():
            return DownloadedText(data.url, data.sha256, data.document_separator)
        case PythonConfig():
            return PythonLibrary()
        case _:
            return Stories()


def source_name(data: DataConfig) -> str:
    """Returns the name of the text for messages: its paths, or `data.source = '...'`."""
    if isinstance(data, FilesConfig | PairsConfig):
        return ", ".join(data.paths)
    return f"data.source = {data.source!r}"


class Stories:
    """The bundled corpus; see `corpus.stories`."""

    def fingerprint(self) -> str:
        return FINGERPRINT

    def pieces(self) -> Iterator[Piece]:
        return (Piece(story.encode(), True) for story in stories())


class PythonLibrary:
    """The source code of the installed Python standard library; every file is a document."""

    _SKIPPED = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test"})

    def fingerprint(self) -> str:
        total = hashlib.sha256()
        for piece in self.pieces():
            total.update(hashlib.sha256(piece.text).digest())
        return total.hexdigest()

    def pieces(self) -> Iterator[Piece]:
        library = Path(sysconfig.get_path("stdlib"))
        for path in sorted(library.rglob("*.py")):
            if self._SKIPPED.isdisjoint(path.relative_to(library).parts) and path.is_file():
                text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
                try:
                    text.decode()
                except UnicodeDecodeError:
                    continue
                yield Piece(text, True)
