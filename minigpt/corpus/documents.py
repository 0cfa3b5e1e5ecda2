"""Documents in one memory-mapped file: their boundaries, and how they are cut into pieces."""

import hashlib
import mmap
import re
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

PIECE_BYTES = 1_000_000
_LOOK_BACK_BYTES = 1 << 16
# Bytes of the text that are read before their memory is released.
_KEPT_BYTES = 1 << 26
_LAST_WORD_END = re.compile(rb".*\S(?=\s)", re.DOTALL)


class Piece(NamedTuple):
    """A part of a document. The concatenated pieces of a document are valid UTF-8."""

    text: bytes
    ends_document: bool


@dataclass(frozen=True)
class Documents:
    """Documents as spans of a UTF-8 text, in memory or memory-mapped.

    Attributes:
      spans: int64[N, 2], first byte and end of each document. No document is empty.
      digests: S16[N], 128 bits of BLAKE2b of each document: equal documents have equal ones.
      open_end: whether the last document continues beyond its span.
    """

    text: mmap.mmap | bytearray
    spans: np.ndarray
    digests: np.ndarray
    open_end: bool = False

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def bytes(self) -> int:
        return int(np.diff(self.spans).sum())

    def select(self, indices: np.ndarray) -> "Documents":
        """Returns the documents at `indices`, int[n], in this order; or those of a mask, bool[N]."""
        spans, digests = self.spans[indices], self.digests[indices]
        return replace(self, spans=spans, digests=digests, open_end=False)

    def pieces(self, piece_bytes: int = PIECE_BYTES) -> Iterator[tuple[str, bool]]:
        """Yields every document in pieces of at most `piece_bytes`, and whether a piece ends it."""
        for start, stop, ends_document in self.piece_spans(piece_bytes):
            yield self.text[start:stop].decode(), ends_document

    def piece_spans(self, piece_bytes: int = PIECE_BYTES) -> Iterator[tuple[int, int, bool]]:
        """Yields first byte and end of every piece, and whether it ends a document; see `pieces`."""
        released, last = 0, len(self.spans) - 1
        for index, span in enumerate(self.spans):
            start, stop = int(span[0]), int(span[1])
            while start < stop:
                cut = self._cut(start, start + piece_bytes) if stop - start > piece_bytes else stop
                yield start, cut, cut == stop and (index < last or not self.open_end)
                start = cut
                if abs(start - released) >= _KEPT_BYTES and isinstance(self.text, mmap.mmap):
                    # What was read is not needed in memory until it is read again.
                    self.text.madvise(mmap.MADV_DONTNEED)
                    released = start

    def _cut(self, start: int, limit: int) -> int:
        # Cut before the white space that follows a word. Tokenizers join white space to the word
        # after it, so the tokens of the pieces equal those of the whole. Text without white space is
        # cut between any two characters.
        begin = max(start, limit - _LOOK_BACK_BYTES)
        word = _LAST_WORD_END.match(self.text[begin : limit + 1])
        return begin + word.end() if word else character_start(self.text, limit)


def character_start(text: mmap.mmap | bytearray, position: int) -> int:
    """Returns the first byte of the UTF-8 character that includes the byte at `position`."""
    while text[position] & 0xC0 == 0x80:
        position -= 1
    return position


def ingest(pieces: Iterable[Piece], folder: Path | None = None) -> Documents:
    """Writes documents to an unnamed temporary file and maps it into memory.

    The operating system removes the file when the process ends, however it ends. Documents that are
    empty or only white space are skipped.

    Args:
      pieces: the documents in order; together valid UTF-8.
      folder: where to create the file; the system's temporary folder if None.
    """
    spans, digests = array("q"), bytearray()
    start, blank, digest = 0, True, hashlib.blake2b(digest_size=16)
    with tempfile.TemporaryFile(dir=folder) as file:
        for piece, ends_document in pieces:
            file.write(piece)
            digest.update(piece)
            blank = blank and (not piece or piece.isspace())
            if ends_document:
                if not blank:
                    spans.extend((start, file.tell()))
                    digests += digest.digest()
                start, blank, digest = file.tell(), True, hashlib.blake2b(digest_size=16)
        file.flush()
        size = file.tell()
        text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else bytearray()
    places = np.frombuffer(spans, np.int64).reshape(-1, 2)
    return Documents(text, places, np.frombuffer(digests, "S16"))


def format_size(n_bytes: int) -> str:
    """Returns a size to read: bytes below 100,000, megabytes above."""
    return f"{n_bytes:,} bytes" if n_bytes < 100_000 else f"{n_bytes / 1e6:,.1f} MB"
