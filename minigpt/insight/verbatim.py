"""Finds the passages of some texts that occur verbatim in a training text, which is read once.

A word is a run of bytes other than ASCII white space. A passage is a run of words with the white space
between them. It is verbatim if the same characters, line breaks included, occur in one document of the
training text and begin and end there with a whole word. Passages of less than MIN_WORDS words or
MIN_CHARACTERS characters are not counted: they are common language.

The index is one of the few texts, not of the training text: the suffix automaton of their words and white
space (Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text"). It finds the
longest passage of the texts that ends at each word of the training text. It reads only the parts of the
training text of which every MIN_WORDS words have the fingerprint of words of the texts.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

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
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FINGERPRINT_BITS = 22
# Bytes of the texts that are searched together. Their automaton takes about 100 times as many.
_GROUP_BYTES = 1 << 21
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
    """Finds all verbatim passages of texts in a training text.

    Args:
      training: the training text. It is read once for every `_GROUP_BYTES` of the texts.
      texts: the texts, which are small.
      token_bytes: the bytes of the tokens of both.
    """
    copies = Copies()
    group: list[Text] = []
    for text in texts:
        if group and sum(len(each.data) for each in [*group, text]) > _GROUP_BYTES:
            _Search(group, token_bytes).add_to(copies, training)
            group = []
        group.append(text)
    if group:
        _Search(group, token_bytes).add_to(copies, training)
    return copies


class _Search:
    """The passages of texts that are found in a training text.

    Args:
      texts: the texts.
      token_bytes: made them.
    """

    def __init__(self, texts: Sequence[Text], token_bytes: TokenBytes) -> None:
        self._texts = texts
        separator = np.full(1, _SEPARATOR, np.uint8)
        marked = [np.where(t.data < FIRST_MARK, t.data, np.uint8(_SEPARATOR)) for t in texts]
        data = np.concatenate([separator, *chain(*((text, separator) for text in marked))])
        self._begins = 1 + np.cumsum([0, *(len(text) + 1 for text in marked)])[:-1]
        self._firsts, self._ends = _words(data)
        is_counted = np.zeros(len(data), bool)
        for text, begin in zip(texts, self._begins, strict=True):
            is_counted[begin + text.counted_from : begin + len(text.data)] = True
        is_character = token_bytes.is_character(data)
        # Element n is the number of characters among the first n bytes.
        self._characters = np.append(0, np.cumsum(is_character))
        self._counted = np.append(0, np.cumsum(is_character & is_counted))
        self._fingerprints = np.zeros(1 << _FINGERPRINT_BITS, bool)
        self._fingerprints[_fingerprints(data, self._firsts, self._ends)] = True
        self._automaton = _Automaton(
            _pieces(data.tobytes(), self._firsts.tolist(), self._ends.tolist())
        )
        # What was read last: many parts of stories from a grammar are the same.
        self._seen: set[bytes] = set()
        # A passage and a byte on both sides of it are in one block, or in this and the next one.
        self._overlap = max(len(text.data) for text in texts) + 2

    def add_to(self, copies: Copies, training: TokenText) -> None:
        """Reads the training text and adds the passages of the texts."""
        offset, data = 0, np.zeros(0, np.uint8)
        # The last word of the training text ends with it.
        for block in chain(training.blocks(), [np.full(1, DOCUMENT_END, np.uint8)]):
            kept = data[max(0, len(data) - self._overlap) :]
            offset += len(data) - len(kept)
            data = np.concatenate([kept, block])
            self._read(data, offset)
        self._add_found(copies)

    def _read(self, data: np.ndarray, offset: int) -> None:
        """Reads uint8[N] from `offset` of the training text on."""
        firsts, ends = _words(data)
        is_known = self._fingerprints[_fingerprints(data, firsts, ends)]
        edges = np.flatnonzero(np.diff(is_known, prepend=False, append=False)).tolist()
        if not edges:
            return
        whole, first_bytes, end_bytes = data.tobytes(), firsts.tolist(), ends.tolist()
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            part = slice(begin, end + MIN_WORDS - 1)
            words = whole[first_bytes[begin] : end_bytes[part.stop - 1]]
            if words not in self._seen:
                self._seen.add(words)
                self._automaton.read(whole, first_bytes[part], end_bytes[part], offset)
        if len(self._seen) > _MOST_SEEN:
            self._seen.clear()

    def _add_found(self, copies: Copies) -> None:
        found = self._automaton.longest()
        spans: list[list[tuple[int, int]]] = [[] for _ in self._texts]
        # The pieces of the texts are words and white space by turns.
        for word, (length, offset) in enumerate(found[::2]):
            words = (length + 1) // 2
            if words < MIN_WORDS:
                continue
            begin, end = int(self._firsts[word + 1 - words]), int(self._ends[word])
            if self._characters[end] - self._characters[begin] < MIN_CHARACTERS:
                continue
            number = int(np.searchsorted(self._begins, begin, side="right")) - 1
            text, shift = self._texts[number], int(self._begins[number])
            characters = int(self._counted[end] - self._counted[begin])
            if text.is_ranked and characters > copies.characters:
                copies.characters, copies.offset = characters, offset - (end - begin)
                copies.longest = len(copies.spans) + number, begin - shift, end - shift
            _add_span(spans[number], max(begin - shift, text.counted_from), end - shift)
        copies.spans += spans


def _add_span(spans: list[tuple[int, int]], begin: int, end: int) -> None:
    """Adds a span that ends after all others, and merges it with those that it touches."""
    while spans and begin <= spans[-1][1]:
        begin = min(begin, spans.pop()[0])
    if begin < end:
        spans.append((begin, end))


class _Automaton:
    """The suffix automaton of a sequence. A state stands for all parts that end at the same positions.

    Args:
      pieces: the sequence: words and white space by turns.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._moves: list[dict[bytes, int]] = []  # For each state, the next states by pieces.
        self._lengths: list[int] = []  # Pieces of its longest part.
        self._links: list[int] = []  # The state of the longest suffix that has more positions.
        self._states: list[int] = []  # For each position, the state of all that ends there.
        last = self._add({}, 0, -1)
        for piece in pieces:
            new, at = self._add({}, self._lengths[last] + 1, 0), last
            while at >= 0 and piece not in self._moves[at]:
                self._moves[at][piece] = new
                at = self._links[at]
            if at >= 0:
                self._links[new] = self._split(at, piece)
            self._states.append(new)
            last = new
        # For each state, the pieces of the longest part that was found, and where it ended.
        self._found = [(0, 0)] * len(self._moves)

    def _add(self, moves: dict[bytes, int], length: int, link: int) -> int:
        self._moves.append(moves)
        self._lengths.append(length)
        self._links.append(link)
        return len(self._moves) - 1

    def _split(self, at: int, piece: bytes) -> int:
        """Returns the state of the longest part of state `at` with a piece after it."""
        to, length = self._moves[at][piece], self._lengths[at] + 1
        if self._lengths[to] == length:
            return to
        copy = self._add(dict(self._moves[to]), length, self._links[to])
        self._links[to] = copy
        while at >= 0 and self._moves[at].get(piece) == to:
            self._moves[at][piece] = copy
            at = self._links[at]
        return copy

    def read(self, data: bytes, firsts: list[int], ends: list[int], offset: int) -> None:
        """Reads words of a training text.

        Args:
          data: a part of the training text.
          firsts, ends: where each word begins and ends in it.
          offset: where it begins in the training text.
        """
        state = length = 0
        for number, piece in enumerate(_pieces(data, firsts, ends)):
            while state and piece not in self._moves[state]:
                state = self._links[state]
                length = self._lengths[state]
            state = self._moves[state].get(piece, 0)
            length = length + 1 if state else 0
            if number % 2 == 0 and length > self._found[state][0]:
                # It begins with a word too.
                self._found[state] = length - 1 + length % 2, offset + ends[number // 2]

    def longest(self) -> list[tuple[int, int]]:
        """Returns for each position the longest part that ends there and was found.

        Returns:
          Its number of pieces, and the byte of the training text at which it ended.
        """
        order = sorted(range(1, len(self._moves)), key=self._lengths.__getitem__)
        for state in reversed(order):
            # The suffixes of what was found are found.
            link, (length, end) = self._links[state], self._found[state]
            length = min(length, self._lengths[link])
            length -= 1 - length % 2
            if length > self._found[link][0]:
                self._found[link] = length, end
        for state in order:
            link = self._links[state]
            if self._found[link][0] > self._found[state][0]:
                self._found[state] = self._found[link]
        return [self._found[state] for state in self._states]


def _words(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns where the words of uint8[N] begin and end, int64[W] each; not those at its edges."""
    is_break = _BREAKS[data]
    edges = np.flatnonzero(is_break[1:] != is_break[:-1]) + 1
    if not is_break[0]:
        edges = edges[1:]
    edges = edges[: len(edges) // 2 * 2]
    return edges[::2], edges[1::2]


def _pieces(data: bytes, firsts: list[int], ends: list[int]) -> Iterator[bytes]:
    """Yields words and the white space between them by turns."""
    for number, (first, end) in enumerate(zip(firsts, ends, strict=True)):
        if number:
            yield data[ends[number - 1] : first]
        yield data[first:end]


def _fingerprints(data: np.ndarray, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns uint64[W - 7], numbers that depend on the bytes of each MIN_WORDS consecutive words."""
    count = len(firsts) - MIN_WORDS + 1
    if count <= 0:
        return np.zeros(0, np.uint64)
    # The 8 bytes from each byte on. Five words and what is between them have more.
    words = np.ndarray(len(data) - 7, "<u8", np.ascontiguousarray(data), strides=(1,))
    first, middle, end = firsts[:count], firsts[3 : 3 + count], ends[MIN_WORDS - 1 :]
    total = (end - first).astype(np.uint64)
    for at in (first, middle, end - 8):
        total = (total ^ words[at]) * _FACTOR
        total ^= total >> np.uint64(32)
    return total >> np.uint64(64 - _FINGERPRINT_BITS)
