"""Finds the parts of some texts that occur verbatim in a training text, which is read once.

A word is a run of bytes other than ASCII white space. A passage begins with a word, and ends with the first
word with which it has at least MIN_WORDS words and MIN_CHARACTERS characters: what is shorter is common
language. It is verbatim if the same characters, line breaks included, occur in one document of the training
text and begin and end there with a whole word. Passages are compared by their hashes of 64 bits.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from minigpt.tokenizers.base import Tokenizer

MIN_WORDS, MIN_CHARACTERS = 8, 50
# Bytes from here on occur in no UTF-8.
_FIRST_MARK = 0xF8
# The end of a document, and an unknown word or character.
DOCUMENT_END, UNKNOWN = 0xFF, 0xFE
# Separates texts, and replaces their marks. No training text contains it.
_SEPARATOR = np.uint8(0xFD)
_BREAKS = np.zeros(256, bool)
_BREAKS[list(b" \t\n\r\v\f")] = True
_BREAKS[_FIRST_MARK:] = True
_BLOCK_TOKENS = 1 << 18
# Odd, so that it has an inverse modulo 2^64.
_BASE = 0x9E3779B97F4A7C15
_FILTER_BITS = 22
_FILTER_SHIFT = np.uint64(64 - _FILTER_BITS)


class TokenBytes:
    """The bytes of every token of a tokenizer.

    The bytes of a text are those of its decoded tokens, in UTF-8, with three differences: escape sequences
    stay, every word of a word tokenizer is followed by a space, and there are marks for end tokens and
    unknown tokens. They do not depend on how the text is split into tokens.
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

    def join(self, ids: np.ndarray) -> np.ndarray:
        """Returns the bytes of token ids, uint8[N], of integers[T] with less than 2^31 bytes."""
        lengths = np.take(self._lengths, ids)
        firsts = np.cumsum(lengths, dtype=np.int32) - lengths
        index = np.repeat(np.take(self._starts, ids) - firsts, lengths)
        index += np.arange(len(index), dtype=np.int32)
        return np.take(self._flat, index)

    def blocks(self, ids: np.ndarray) -> Iterator[np.ndarray]:
        """Yields the bytes of token ids that may be larger than memory, uint8[N] at a time."""
        for position in range(0, len(ids), _BLOCK_TOKENS):
            yield self.join(np.asarray(ids[position : position + _BLOCK_TOKENS]))

    def ends(self, ids: np.ndarray) -> np.ndarray:
        """Returns where the bytes of each token end in `join(ids)`, int64[T]."""
        return np.cumsum(np.take(self._lengths, ids), dtype=np.int64)

    def decode(self, data: np.ndarray) -> str:
        """Returns the text of bytes that `join` returned, as the tokenizer decodes it."""
        text = data.tobytes().replace(bytes([DOCUMENT_END]), b"")
        if self.tokenizer.unknown_id is not None:
            text = text.replace(self._unknown, b"")
        return self.tokenizer.decode_bytes(text)


def find_copies(training: Iterable[np.ndarray], texts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Finds all verbatim passages of texts in a training text, which is read once.

    Args:
      training: the bytes of the training text, uint8[n] at a time; see `TokenBytes.blocks`.
      texts: uint8[N] each, from `TokenBytes.join`. They are small.
    Returns:
      bool[N] for each text: whether each byte is in a verbatim passage.
    """
    end = np.full(1, _SEPARATOR)
    marked = [np.append(np.where(text < _FIRST_MARK, text, _SEPARATOR), end) for text in texts]
    data = np.concatenate([end, *marked])
    firsts, ends, hashes = _passages(data)
    wanted = np.unique(hashes)
    found = np.zeros(len(wanted), bool)
    # Some bits of the hashes: few passages of the training text are looked up.
    may_occur = np.zeros(1 << _FILTER_BITS, bool)
    may_occur[wanted >> _FILTER_SHIFT] = True
    # A passage and a byte on both sides of it are in one block, or in this and the next one.
    overlap = max(map(len, marked), default=0) + 1
    read = end[:0]
    # The last word of the training text ends with it.
    for block in chain(training, [end]):
        read = np.concatenate([read[-overlap:], block])
        _, _, seen = _passages(read)
        seen = seen[may_occur[seen >> _FILTER_SHIFT]]
        at = np.minimum(np.searchsorted(wanted, seen), len(wanted) - 1)
        found[at[wanted[at] == seen]] = True
    is_copied = np.isin(hashes, wanted[found])
    begun = np.bincount(firsts[is_copied], minlength=len(data))
    ended = np.bincount(ends[is_copied], minlength=len(data))
    inside = np.cumsum(begun - ended) > 0
    parts = np.split(inside[1:], np.cumsum([len(text) for text in marked]))
    return [part[:-1] for part in parts[: len(texts)]]


def _passages(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns where the passages of uint8[N] begin and end, int64[n] each, and their hashes, uint64[n].

    Words at the edges of the data may be parts of words; they are left out.
    """
    is_break = _BREAKS[data]
    edges = np.flatnonzero(is_break[1:] != is_break[:-1]) + 1
    if not is_break[0]:
        edges = edges[1:]
    firsts, ends = edges[: len(edges) // 2 * 2].reshape(-1, 2).T
    characters = np.append(0, np.cumsum(data & 0xC0 != 0x80))
    long_enough = np.searchsorted(characters[ends], characters[firsts] + MIN_CHARACTERS)
    last = np.maximum(long_enough, np.arange(len(firsts)) + MIN_WORDS - 1)
    # These grow, so that the incomplete passages are the last ones.
    count = np.searchsorted(last, len(ends))
    firsts, ends = firsts[:count], ends[last[:count]]
    return firsts, ends, passage_hashes(data, firsts, ends)


def passage_hashes(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns a polynomial hash modulo 2^64 of each passage of a text (Karp and Rabin 1987).

    Args:
      data: uint8[N].
      begins, ends: integers[n].
    Returns:
      uint64[n].
    """
    powers, inverses = np.ones([2, len(data) + 1], np.uint64)
    powers[1:], inverses[1:] = _BASE, pow(_BASE, -1, 1 << 64)
    np.multiply.accumulate(powers, out=powers)
    np.multiply.accumulate(inverses, out=inverses)
    sums = np.append(np.uint64(0), np.cumsum((data.astype(np.uint64) + 1) * powers[:-1]))
    hashes = (sums[ends] - sums[begins]) * inverses[begins]
    # The low bits of a product depend on the low bits of its factors only.
    return hashes * np.uint64(_BASE) ^ (hashes >> 29)
