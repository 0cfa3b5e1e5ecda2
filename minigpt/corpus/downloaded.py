"""Downloaded sources: a text file, and the IMDB reviews in their archive.

A download can come from an untrusted source, and a small file can decompress to any size. All sizes are
limited.
"""

import gzip
import re
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from minigpt.corpus.documents import Piece
from minigpt.corpus.text_files import TextFiles
from minigpt.errors import UserError
from minigpt.storage.downloads import download

MAX_BYTES = 20_000_000_000
MAX_MEMBERS = 1_000_000
MAX_MEMBER_BYTES = 100_000_000


class DownloadedText:
    """A text file from the network."""

    def __init__(self, url: str, sha256: str, separator: str | None):
        self._url, self._sha256, self._separator = url, sha256, separator

    def fingerprint(self) -> str:
        # Known before the download: an existing token store makes the download unnecessary.
        return self._sha256

    def pieces(self) -> Iterator[Piece]:
        path = download(self._url, self._sha256)
        n_bytes = 0
        for piece in TextFiles([path], self._separator).pieces():
            n_bytes += len(piece.text)
            if n_bytes > MAX_BYTES:
                raise UserError(f"{self._url}: decompresses to more than {MAX_BYTES:,} bytes")
            yield piece


class Imdb:
    """The labelled reviews of the Large Movie Review Dataset, one document each, sorted by name.

    Maas et al. 2011, https://ai.stanford.edu/~amaas/data/sentiment/. Each `<br />` becomes a space.
    """

    _REVIEW = re.compile(r"aclImdb/(train|test)/(pos|neg)/[^/.][^/]*\.txt")

    def __init__(self, url: str, sha256: str):
        self._url, self._sha256 = url, sha256

    def fingerprint(self) -> str:
        return self._sha256

    def pieces(self) -> Iterator[Piece]:
        archive = download(self._url, self._sha256)
        # The archive can only be read in its own order; an unnamed file makes sorting possible.
        with tempfile.TemporaryFile() as unsorted:
            spans: dict[str, tuple[int, int]] = {}
            problems = []
            for name, text in self._reviews(archive):
                try:
                    text.decode()
                except UnicodeDecodeError as error:
                    problems.append(f"{self._url}: {name}: not valid UTF-8 at byte {error.start}")
                spans[name] = (unsorted.tell(), len(text))
                unsorted.write(text)
            if problems or not spans:
                raise UserError(*problems or [f"{self._url}: contains no IMDB reviews"])
            for name in sorted(spans):
                start, size = spans[name]
                unsorted.seek(start)
                yield Piece(unsorted.read(size), True)

    def _reviews(self, archive: Path) -> Iterator[tuple[str, bytes]]:
        try:
            with (
                _LimitedGzip(archive, self._url) as decompressed,
                tarfile.open(fileobj=decompressed, mode="r|") as tar,
            ):
                for index, member in enumerate(tar):
                    if index >= MAX_MEMBERS:
                        raise UserError(f"{self._url}: contains more than {MAX_MEMBERS:,} members")
                    # tarfile would keep every member it has read.
                    tar.members = []  # type: ignore[attr-defined]
                    decompressed.start_member()
                    # A sparse member can expand to any size.
                    if (
                        member.isreg()
                        and not member.issparse()
                        and self._REVIEW.fullmatch(member.name)
                    ):
                        if member.size > MAX_MEMBER_BYTES:
                            raise UserError(
                                f"{self._url}: {member.name}: has more than {MAX_MEMBER_BYTES:,} bytes"
                            )
                        file = tar.extractfile(member)
                        if file is not None:
                            yield member.name, file.read().replace(b"<br />", b" ")
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise UserError(f"{self._url}: not a readable .tar.gz archive: {error}") from None


class _LimitedGzip(gzip.GzipFile):
    """A decompressed archive of limited size; tarfile itself has no limit.

    tarfile reads the headers of a member into memory, whatever their size. They count toward the size
    of the member.
    """

    def __init__(self, archive: Path, url: str) -> None:
        super().__init__(archive)
        self._url, self._member_start = url, 0

    def start_member(self) -> None:
        self._member_start = self.tell()

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > MAX_BYTES:
            raise UserError(f"{self._url}: decompresses to more than {MAX_BYTES:,} bytes")
        # The member itself, what tarfile has read ahead, and the headers of the next member.
        if self.tell() - self._member_start > 2 * MAX_MEMBER_BYTES:
            raise UserError(f"{self._url}: a member has more than {MAX_MEMBER_BYTES:,} bytes")
        return super().read(size)
