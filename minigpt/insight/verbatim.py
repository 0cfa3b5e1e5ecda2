"""Finds the passages of some texts that occur verbatim in a training text, which is read once.

A word is a run of bytes other than ASCII white space. A passage is a run of words with the white space
between them. It is verbatim if the same characters, line breaks included, occur in one document of the
training text and begin and end there with a whole word. Passages of less than MIN_WORDS words or
MIN_CHARACTERS characters are not counted: they are common language.

Every MIN_WORDS consecutive words have a hash of 64 bits. Those of the texts are sorted, and those of the
training text are looked up among them. Hashes that are consecutive in both make a longer passage.
"""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from minigpt.insight.repetition import passage_hashes
from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.vocabulary import ESCAPE

# Bytes that no UTF-8 contains: the end of a document, and an unknown word or character.
DOCUMENT_END, UNKNOWN = 0xFF, 0xFE
# Bytes from here on occur in no UTF-8.
FIRST_MARK = 0xF8
# Tokens of the first block and of the largest one. Small blocks stay in the processor's cache.
_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 12, 1 << 18
MIN_WORDS, MIN_CHARACTERS = 8, 50

# Replaces bytes that no UTF-8 contains, and separates texts. No training text contains it.
_SEPARATOR = 0xFD
_BREAKS = np.zeros(256, bool)
_BREAKS[list(b" \t\n\r\v\f")] = True
_BREAKS[[DOCUMENT_END, UNKNOWN, _SEPARATOR]] = True
_FILTER_BITS = 22
_FILTER_SHIFT = np.uint64(64 - _FILTER_BITS)
_MOST_SEEN = 100_000


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


@dataclass(frozen=True)
class Text:
    """A text of which passages are searched.

    Attributes:
      data: uint8[N], from `TokenBytes.join`.
      counted_from: passages must end after this byte: a prompt is before it.
      is_ranked: whether the longest passage may be one of this text.
    """

    data: np.ndarray
    counted_from: int = 0
    is_ranked: bool = True


@dataclass
class Copies:
    """The passages of texts that occur in a training text.

    Attributes:
      spans: for each text, the verbatim passages as (begin, end) in bytes, merged and in order.
      longest: the longest passage, (text, begin, end), with most characters that are counted; None if
        there is none.
      offset: where the longest passage begins in the training text, in bytes.
      characters: those of the longest passage that are counted.
    """

    spans: list[list[tuple[int, int]]] = field(default_factory=list)
    longest: tuple[int, int, int] | None = None
    offset: int = 0
    characters: int = 0


def find_copies(training: TokenText, texts: Sequence[Text], token_bytes: TokenBytes) -> Copies:
    """Finds all verbatim passages of texts in a training text, which is read once.

    Args:
      training: the training text.
      texts: the texts, which are small.
      token_bytes: the bytes of the tokens of both.
    """
    search = _Search(texts)
    # A passage and a byte on both sides of it are in one block, or in this and the next one.
    overlap = max((len(text.data) for text in texts), default=0) + 2
    offset, data = 0, np.zeros(0, np.uint8)
    # The last word of the training text ends with it.
    for block in chain(training.blocks(), [np.full(1, DOCUMENT_END, np.uint8)]):
        kept = data[max(0, len(data) - overlap) :]
        offset += len(data) - len(kept)
        data = np.concatenate([kept, block])
        search.read(data, offset)
    return search.copies(token_bytes)


class _Search:
    """The passages of texts that are found in a training text.

    Window n of a text begins with its word n and has MIN_WORDS words. A passage is a run of windows. For
    each window of the texts, the longest run that ends with it is found.

    Args:
      texts: the texts.
    """

    def __init__(self, texts: Sequence[Text]) -> None:
        self._texts = texts
        separator = np.full(1, _SEPARATOR, np.uint8)
        marked = [np.where(t.data < FIRST_MARK, t.data, np.uint8(_SEPARATOR)) for t in texts]
        self._data = np.concatenate([separator, *chain(*((text, separator) for text in marked))])
        self._begins = 1 + np.cumsum([0, *(len(text) + 1 for text in marked)])[:-1]
        self._firsts, self._ends = _words(self._data)
        hashes = _hashes(self._data, self._firsts, self._ends)
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._order]
        # Some bits of the hashes: few windows of the training text are looked up.
        self._may_occur = np.zeros(1 << _FILTER_BITS, bool)
        self._may_occur[hashes >> _FILTER_SHIFT] = True
        # The windows of the run that was found, and the byte of the training text at which it ended.
        self._lengths = np.zeros(len(hashes), np.int64)
        self._offsets = np.zeros(len(hashes), np.int64)
        # No text has more windows.
        self._most = 1 + max(map(len, marked), default=0) // 2
        # What was read last: many parts of stories from a grammar are the same.
        self._seen: set[bytes] = set()

    def read(self, data: np.ndarray, offset: int) -> None:
        """Reads uint8[N] from `offset` of the training text on."""
        firsts, ends = _words(data)
        hashes = _hashes(data, firsts, ends)
        windows = np.flatnonzero(self._may_occur[hashes >> _FILTER_SHIFT])
        first, last = (np.searchsorted(self._sorted, hashes[windows], s) for s in ("left", "right"))
        windows, first, last = (each[first < last] for each in (windows, first, last))
        for run in np.split(np.arange(len(windows)), np.flatnonzero(np.diff(windows) > 1) + 1):
            # In parts that contain every possible passage: those of repetitive text are the same.
            for begin in range(0, max(1, len(run) - self._most), self._most):
                part = run[begin : begin + 2 * self._most]
                key = hashes[windows[part]].tobytes()
                if key not in self._seen:
                    self._seen.add(key)
                    places = [
                        self._order[a:b] for a, b in zip(first[part], last[part], strict=True)
                    ]
                    self._add_run(places, offset + ends[windows[part] + MIN_WORDS - 1])
        if len(self._seen) > _MOST_SEEN:
            self._seen.clear()

    def _add_run(self, places: Sequence[np.ndarray], ends: np.ndarray) -> None:
        """Adds consecutive windows of the training text.

        Args:
          places: for each, the same windows of the texts.
          ends: int64, where they end in the training text.
        """
        # For each window of the texts, the length of the run that ends with it; 0 before the first one.
        current, before = np.zeros(len(self._lengths) + 1, np.int64), np.zeros(0, np.int64)
        for found, end in zip(places, ends, strict=True):
            lengths = current[found] + 1
            current[before] = 0
            before = found + 1
            current[before] = lengths
            is_longer = lengths > self._lengths[found]
            longer = found[is_longer]
            self._lengths[longer], self._offsets[longer] = lengths[is_longer], end

    def copies(self, token_bytes: TokenBytes) -> Copies:
        """Returns the passages that were found."""
        is_counted = np.zeros(len(self._data), bool)
        for text, begin in zip(self._texts, self._begins, strict=True):
            is_counted[begin + text.counted_from : begin + len(text.data)] = True
        is_character = token_bytes.is_character(self._data)
        # Element n is the number of characters among the first n bytes.
        characters = np.append(0, np.cumsum(is_character))
        counted = np.append(0, np.cumsum(is_character & is_counted))
        copies = Copies([[] for _ in self._texts])
        for window in np.flatnonzero(self._lengths).tolist():
            begin = int(self._firsts[window + 1 - self._lengths[window]])
            end = int(self._ends[window + MIN_WORDS - 1])
            if characters[end] - characters[begin] < MIN_CHARACTERS:
                continue
            number = int(np.searchsorted(self._begins, begin, side="right")) - 1
            text, shift = self._texts[number], int(self._begins[number])
            length = int(counted[end] - counted[begin])
            if text.is_ranked and length > copies.characters:
                offset = int(self._offsets[window]) - (end - begin)
                copies.characters, copies.offset = length, offset
                copies.longest = number, begin - shift, end - shift
            _add_span(copies.spans[number], max(begin - shift, text.counted_from), end - shift)
        return copies


def _add_span(spans: list[tuple[int, int]], begin: int, end: int) -> None:
    """Adds a span that ends after all others, and merges it with those that it touches."""
    while spans and begin <= spans[-1][1]:
        begin = min(begin, spans.pop()[0])
    if begin < end:
        spans.append((begin, end))


def _words(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns where the words of uint8[N] begin and end, int64[W] each; not those at its edges."""
    is_break = _BREAKS[data]
    edges = np.flatnonzero(is_break[1:] != is_break[:-1]) + 1
    if not is_break[0]:
        edges = edges[1:]
    edges = edges[: len(edges) // 2 * 2]
    return edges[::2], edges[1::2]


def _hashes(data: np.ndarray, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns uint64[W - 7], hashes of the bytes of each window."""
    return passage_hashes(
        data, firsts[: max(0, len(firsts) - MIN_WORDS + 1)], ends[MIN_WORDS - 1 :]
    )
