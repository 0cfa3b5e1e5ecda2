"""Where text comes from: one class a source, all with `fingerprint()` and `pieces()`."""

import codecs
import gzip
import hashlib
import re
import sysconfig
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
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
from minigpt.corpus import stories
from minigpt.corpus.documents import Piece
from minigpt.corpus.pair_files import PairFiles
from minigpt.corpus.text_files import TextFiles
from minigpt.errors import UserError
from minigpt.storage.downloads import download

Report = Callable[[str], None]
# What a download may become when it is unpacked: a small file can be made that fills every disk.
MOST_BYTES = 20_000_000_000
MOST_MEMBERS = 1_000_000
MOST_MEMBER_BYTES = 100_000_000


class Source(Protocol):
    def fingerprint(self) -> str:
        """SHA-256 of the bytes that decide the documents; names and dates do not count."""

    def pieces(self) -> Iterator[Piece]:
        """The documents, always in the same order.

        Raises:
          UserError: with everything that is wrong with the text, one line each.
        """


def open_source(data: DataConfig, report: Report = lambda line: None) -> Source:
    """The source that `data.source` names."""
    match data:
        case FilesConfig():
            return TextFiles(data.paths, data.document_separator)
        case PairsConfig():
            return PairFiles(data.paths, report)
        case ImdbConfig():
            return Imdb(data.url, data.sha256, report)
        case ShakespeareConfig():
            return DownloadedText(data.url, data.sha256, data.document_separator, report)
        case PythonConfig():
            return PythonLibrary()
        case _:
            return Stories()


class Stories:
    """The stories made by `corpus.stories`."""

    def fingerprint(self) -> str:
        return stories.fingerprint()

    def pieces(self) -> Iterator[Piece]:
        return (Piece(story.encode(), True) for story in stories.stories())


class DownloadedText:
    """One text file from the network."""

    def __init__(self, url: str, sha256: str, separator: str | None, report: Report):
        self._url, self._sha256, self._separator, self._report = url, sha256, separator, report

    def fingerprint(self) -> str:
        # Known before the download, which a token store that is there makes needless.
        return self._sha256

    def pieces(self) -> Iterator[Piece]:
        path = download(self._url, self._sha256, self._report)
        unpacked = 0
        for piece in TextFiles([path], self._separator).pieces():
            unpacked += len(piece.text)
            if unpacked > MOST_BYTES:
                raise UserError(f"{self._url}: unpacks to more than {MOST_BYTES:,} bytes")
            yield piece


class Imdb:
    """The labelled reviews of the Large Movie Review Dataset, one a document, sorted by name.

    Maas et al. 2011, https://ai.stanford.edu/~amaas/data/sentiment/. Each `<br />` is a space.
    """

    _REVIEW = re.compile(r"aclImdb/(train|test)/(pos|neg)/[^/.][^/]*\.txt")

    def __init__(self, url: str, sha256: str, report: Report):
        self._url, self._sha256, self._report = url, sha256, report

    def fingerprint(self) -> str:
        return self._sha256

    def pieces(self) -> Iterator[Piece]:
        archive = download(self._url, self._sha256, self._report)
        # The archive can only be read in its own order; the nameless file is there for sorting.
        with tempfile.TemporaryFile() as unsorted:
            places: dict[str, tuple[int, int]] = {}
            problems = []
            for name, text in self._reviews(archive):
                try:
                    text.decode()
                except UnicodeDecodeError as error:
                    problems.append(f"{self._url}: {name}: not valid UTF-8 at byte {error.start}")
                places[name] = (unsorted.tell(), len(text))
                unsorted.write(text)
            if problems or not places:
                raise UserError(*problems or [f"{self._url}: no IMDB reviews in it"])
            for name in sorted(places):
                start, size = places[name]
                unsorted.seek(start)
                yield Piece(unsorted.read(size), True)

    def _reviews(self, archive: Path) -> Iterator[tuple[str, bytes]]:
        try:
            with (
                _Limited(archive, self._url) as unpacked,
                tarfile.open(fileobj=unpacked, mode="r|") as tar,
            ):
                for number, member in enumerate(tar):
                    if number >= MOST_MEMBERS:
                        raise UserError(f"{self._url}: holds more than {MOST_MEMBERS:,} members")
                    # Else tarfile keeps every member it has seen.
                    tar.members = []  # type: ignore[attr-defined]
                    unpacked.next_member()
                    # What is sparse unpacks to any size.
                    if (
                        member.isreg()
                        and not member.issparse()
                        and self._REVIEW.fullmatch(member.name)
                    ):
                        if member.size > MOST_MEMBER_BYTES:
                            raise UserError(
                                f"{self._url}: {member.name}: has more than {MOST_MEMBER_BYTES:,} bytes"
                            )
                        file = tar.extractfile(member)
                        if file is not None:
                            yield member.name, file.read().replace(b"<br />", b" ")
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise UserError(f"{self._url}: not a readable .tar.gz archive: {error}") from None


class _Limited(gzip.GzipFile):
    """An unpacked archive, as far as it may go; tarfile itself would read on for ever.

    tarfile holds the headers of a member in memory, of whatever size: they count as the member does.
    """

    def __init__(self, archive: Path, url: str) -> None:
        super().__init__(archive)
        self._url, self._member_began = url, 0

    def next_member(self) -> None:
        self._member_began = self.tell()

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > MOST_BYTES:
            raise UserError(f"{self._url}: unpacks to more than {MOST_BYTES:,} bytes")
        # The member before, what tarfile has read ahead, and the headers of the next.
        if self.tell() - self._member_began > 2 * MOST_MEMBER_BYTES:
            raise UserError(f"{self._url}: a member has more than {MOST_MEMBER_BYTES:,} bytes")
        return super().read(size)


class PythonLibrary:
    """The source of Python's standard library as it is installed here, one file a document."""

    _LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test"})

    def fingerprint(self) -> str:
        total = hashlib.sha256()
        for piece in self.pieces():
            total.update(hashlib.sha256(piece.text).digest())
        return total.hexdigest()

    def pieces(self) -> Iterator[Piece]:
        library = Path(sysconfig.get_path("stdlib"))
        for path in sorted(library.rglob("*.py")):
            if self._LEFT_OUT.isdisjoint(path.relative_to(library).parts) and path.is_file():
                text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
                try:
                    text.decode()
                except UnicodeDecodeError:
                    continue
                yield Piece(text, True)
