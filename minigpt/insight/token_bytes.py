"""The bytes of token ids, and the text of one side of the split as blocks of bytes."""

import mmap
from collections.abc import Iterator

import numpy as np

from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.vocabulary import ESCAPE

# Bytes that no UTF-8 contains: the end of a document, and an unknown word or character.
DOCUMENT_END, UNKNOWN = 0xFF, 0xFE
# Bytes from here on occur in no UTF-8.
FIRST_MARK = 0xF8
# Tokens of the first block and of the largest one. Small blocks stay in the processor's cache.
_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 12, 1 << 18


class TokenBytes:
    """The bytes of every token of a tokenizer.

    The bytes of a text are those of its decoded tokens, in UTF-8, with three differences: escape sequences
    stay, every word of a word tokenizer is followed by a space, and there are marks for end tokens and
    unknown tokens. They do not depend on how the text is split into tokens.

    Args:
      tokenizer: the tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        pieces = [piece + tokenizer.separator if piece else b"" for piece in tokenizer.pieces]
        pieces[tokenizer.end_id] = bytes([DOCUMENT_END])
        self._unknown = bytes([UNKNOWN]) + tokenizer.separator
        if tokenizer.unknown_id is not None:
            pieces[tokenizer.unknown_id] = self._unknown
        self._lengths = np.array([len(piece) for piece in pieces], np.int32)
        self._starts = np.cumsum(self._lengths, dtype=np.int32) - self._lengths
        self._flat = np.frombuffer(b"".join(pieces), np.uint8)
        self._has_escapes = tokenizer.kind == "byte_pair"

    def join(self, ids: np.ndarray) -> np.ndarray:
        """Returns the bytes of token ids, uint8[N].

        Args:
          ids: integers[T], with less than 2^31 bytes.
        """
        lengths = np.take(self._lengths, ids)
        if lengths.min(initial=1) == lengths.max(initial=1) == 1:
            return np.take(self._flat, np.take(self._starts, ids))
        firsts = np.cumsum(lengths, dtype=np.int32) - lengths
        index = np.repeat(np.take(self._starts, ids) - firsts, lengths)
        index += np.arange(len(index), dtype=np.int32)
        return np.take(self._flat, index)

    def ends(self, ids: np.ndarray) -> np.ndarray:
        """Returns where the bytes of each token end in `join(ids)`, int64[T]."""
        return np.cumsum(np.take(self._lengths, ids), dtype=np.int64)

    def decode(self, data: bytes) -> str:
        """Returns the text of bytes that `join` returned, as the tokenizer decodes it."""
        if self.tokenizer.unknown_id is not None:
            data = data.replace(self._unknown, b"")
        return self.tokenizer.decode_bytes(data.replace(bytes([DOCUMENT_END]), b""))

    def is_character(self, data: np.ndarray) -> np.ndarray:
        """Returns bool[N]: for each byte, whether it is the first one of a decoded character.

        Args:
          data: uint8[N], from `join`.
        """
        found = data & 0xC0 != 0x80
        return found & (data != ord(ESCAPE)) if self._has_escapes else found


class TokenText:
    """The text of token ids that may be larger than memory.

    Args:
      ids: unsigned integers[n], memory-mapped or not.
      token_bytes: the bytes of the tokens.
      targets_only: whether every second document is left out, beginning with the first one: the sources
        of pairs.
    """

    def __init__(self, ids: np.ndarray, token_bytes: TokenBytes, targets_only: bool) -> None:
        self._ids = ids
        self._token_bytes = token_bytes
        self._targets_only = targets_only

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields the bytes of the text, uint8[N] at a time; the first blocks are smaller."""
        position, size, ends = 0, _FIRST_BLOCK, 0
        while position < len(self._ids):
            ids = np.asarray(self._ids[position : position + size])
            position += size
            if self._targets_only:
                is_end = ids == self._token_bytes.tokenizer.end_id
                passed = ends + np.cumsum(is_end)
                ends = int(passed[-1])
                # The first end token is before the first source.
                ids = ids[is_end | (passed % 2 == 0)]
            block = self._token_bytes.join(ids)
            _release_pages(self._ids)
            yield block
            size = min(4 * size, _LARGEST_BLOCK)

    def place(self, offset: int) -> tuple[int, int, int]:
        """Returns where a byte of the text is.

        Args:
          offset: its position.
        Returns:
          The number of its document, in which pairs count as one; the characters and the line breaks
          before it in the document.
        """
        document, characters, lines = -1, 0, 0
        for block in self.blocks():
            part = block[:offset]
            offset -= len(part)
            ends = np.flatnonzero(part == DOCUMENT_END)
            if len(ends):
                document += len(ends)
                part, characters, lines = part[ends[-1] + 1 :], 0, 0
            characters += int(self._token_bytes.is_character(part).sum())
            lines += int((part == ord("\n")).sum())
            if not offset:
                break
        return document // 2 if self._targets_only else document, characters, lines


def _release_pages(ids: np.ndarray) -> None:
    """Releases the pages of a memory-mapped file: they count as memory of the process until then."""
    base: object = ids
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
