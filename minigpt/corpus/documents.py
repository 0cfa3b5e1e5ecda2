"""Documents in one memory-mapped file: where they begin and end, how they are cut into pieces."""

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
_LAST_WORD_END = re.compile(rb".*\S(?=\s)", re.DOTALL)


class Piece(NamedTuple):
    """A stretch of a document. Valid UTF-8 once all pieces of the document are joined."""

    text: bytes
    ends_document: bool


@dataclass(frozen=True)
class Documents:
    """Documents as stretches of a memory-mapped UTF-8 text.

    `text` is the whole text, bytes. `spans` is int64[N, 2]: first byte and end of each document; no
    document is empty. `open_end`: the last document goes on beyond this part of it.
    """

    text: mmap.mmap
    spans: np.ndarray
    open_end: bool = False

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def bytes(self) -> int:
        return int((self.spans[:, 1] - self.spans[:, 0]).sum())

    def select(self, numbers: np.ndarray) -> "Documents":
        """The documents with these numbers, int[n], in this order."""
        return replace(self, spans=self.spans[numbers], open_end=False)

    def pieces(self, piece_bytes: int = PIECE_BYTES) -> Iterator[tuple[str, bool]]:
        """Every document in pieces of at most `piece_bytes`, and whether it ends with the piece."""
        last = len(self.spans) - 1
        for number, span in enumerate(self.spans):
            start, stop = int(span[0]), int(span[1])
            while stop - start > piece_bytes:
                cut = self._cut(start, start + piece_bytes)
                yield self.text[start:cut].decode(), False
                start = cut
            yield self.text[start:stop].decode(), number < last or not self.open_end

    def _cut(self, start: int, limit: int) -> int:
        # Before the white space after a word: tokenizers take white space together with what
        # follows, so the pieces' tokens are those of the whole. Writing without spaces is cut
        # between any two characters.
        begin = max(start, limit - _LOOK_BACK_BYTES)
        word = _LAST_WORD_END.match(self.text[begin : limit + 1])
        return begin + word.end() if word else character_start(self.text, limit)


def character_start(text: mmap.mmap, place: int) -> int:
    """The first byte of the character that the byte at `place` belongs to."""
    while text[place] & 0xC0 == 0x80:
        place -= 1
    return place


def ingest(pieces: Iterable[Piece], folder: Path | None = None) -> Documents:
    """Writes documents to a temporary file and maps it into memory.

    The file has no name, so nothing of it stays, however this process ends. Documents of nothing
    but white space are left out.

    Args:
      pieces: the documents one after the other; together valid UTF-8.
      folder: where the file's bytes go; None for the system's temporary folder.
    """
    spans = array("q")
    start, blank = 0, True
    with tempfile.TemporaryFile(dir=folder) as file:
        for text, ends_document in pieces:
            file.write(text)
            blank = blank and (not text or text.isspace())
            if ends_document:
                if not blank:
                    spans.extend((start, file.tell()))
                start, blank = file.tell(), True
        file.flush()
        text_map = (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if start else mmap.mmap(-1, 1)
        )
    return Documents(text_map, np.frombuffer(spans, np.int64).reshape(-1, 2))
