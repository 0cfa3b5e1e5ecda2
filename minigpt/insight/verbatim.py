"""Finds the passages of some texts that occur verbatim in a training text, which is read once or twice.

A word is a run of bytes other than ASCII white space. A passage is a run of words with the white space
between them. It is verbatim if the same characters, line breaks included, occur in one document of the
training text and begin and end there with a whole word. Passages of less than MIN_WORDS words or
MIN_CHARACTERS characters are not counted: they are common language.

The index is one of the few texts, not of the training text: it has the hash of every window of 40 bytes in
which a passage that is not found yet can begin. Only the windows of the training text at multiples of 8
bytes are looked up, because a passage of 50 bytes contains one of them whole, wherever it is: Manber
(1994), "Finding Similar Files in a Large File System". Windows with equal hashes are compared byte by byte.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from minigpt.insight.token_bytes import DOCUMENT_END, FIRST_MARK, UNKNOWN, TokenBytes, TokenText

MIN_WORDS, MIN_CHARACTERS = 8, 50

# Replaces bytes that no UTF-8 contains, and separates texts. No training text contains it.
_SEPARATOR = 0xFD
# Bytes before the first text and after the last one.
MARGIN = 64
_BREAKS = np.zeros(256, bool)
_BREAKS[list(b" \t\n\r\v\f")] = True
_BREAKS[[DOCUMENT_END, UNKNOWN, _SEPARATOR]] = True


def is_word_break(data: np.ndarray) -> np.ndarray:
    """Returns bool[N], whether bytes uint8[N] are white space, a document's end or an unknown token."""
    return _BREAKS[data]


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


class Passages:
    """The words of texts, and which passages of them are known to occur in a training text.

    A passage is a range of words: the first one, and the one after its end. If it occurs, so do its parts.
    A passage is long if it has MIN_WORDS words and MIN_CHARACTERS characters. Every word of a long passage
    is in the shortest long passage that begins with some word, or in the one that ends with some word. So
    it is enough to search for these, which are at most two for every word.

    Args:
      texts: the texts.
      token_bytes: made them.
    Attributes:
      data: uint8[N], all texts with separators, and a margin on both sides.
      firsts, ends: int64[W], where each word begins and ends in `data`.
      changes: grows when a passage becomes known.
    """

    def __init__(self, texts: Sequence[Text], token_bytes: TokenBytes) -> None:
        separator, margin = np.full(1, _SEPARATOR, np.uint8), np.full(MARGIN, _SEPARATOR, np.uint8)
        parts = [np.where(t.data < FIRST_MARK, t.data, np.uint8(_SEPARATOR)) for t in texts]
        sizes = np.array([0, *(len(part) + 1 for part in parts)])
        self.data = np.concatenate(
            [margin, *(a for part in parts for a in (part, separator)), margin]
        )
        self.text_begins = MARGIN + np.cumsum(sizes)[:-1]
        edges = np.diff(is_word_break(self.data).astype(np.int8))
        self.firsts, self.ends = np.flatnonzero(edges == -1) + 1, np.flatnonzero(edges == 1) + 1

        counted, ranked = np.zeros((2, len(self.data)), bool)
        for text, begin in zip(texts, self.text_begins, strict=True):
            part = slice(begin + text.counted_from, begin + len(text.data))
            counted[part], ranked[part] = True, text.is_ranked
        is_character = token_bytes.is_character(self.data)
        self._characters = _sums(is_character)
        self._counted, self._ranked = _sums(counted), _sums(ranked & is_character)
        self._find_shortest()
        self.changes = 0
        # For each word, the end of the longest known passage that begins with it; 0 for none.
        self._known = np.zeros(len(self.firsts), np.int64)

    def _find_shortest(self) -> None:
        """Sets `_shortest`, the end of the shortest long passage from each word on, and `_sought`."""
        words = np.arange(len(self.firsts))
        begins, ends = self._characters[self.firsts], self._characters[self.ends]
        # No passage crosses a separator.
        part = np.cumsum(self.data == _SEPARATOR)[self.firsts]
        self._part_ends = np.searchsorted(part, part, side="right")
        by_characters = np.searchsorted(ends, begins + MIN_CHARACTERS) + 1
        self._shortest = np.maximum(by_characters, words + MIN_WORDS)
        self._can_begin = self._shortest <= self._part_ends
        self._is_sought = self._is_counted(self._can_begin, words, self._shortest)
        by_characters = np.searchsorted(begins, ends - MIN_CHARACTERS, side="right") - 1
        latest = np.minimum(by_characters, words + 1 - MIN_WORDS)
        can_end = latest >= np.searchsorted(part, part)
        can_end = self._is_counted(can_end, latest, words + 1)
        # The passages to search for: their first words and their ends.
        self._sought_firsts = np.concatenate([words[self._is_sought], latest[can_end]])
        self._sought_ends = np.concatenate([self._shortest[self._is_sought], words[can_end] + 1])

    def _is_counted(self, exists: np.ndarray, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns bool[P], whether passages exist and have a byte that is counted."""
        found = exists.copy()
        firsts, ends = firsts[exists], ends[exists]
        found[exists] = self._counted[self.ends[ends - 1]] > self._counted[self.firsts[firsts]]
        return found

    def add(self, firsts: np.ndarray, ends: np.ndarray) -> None:
        """Adds passages that occur, int64[P] each; short ones are allowed."""
        if (ends > self._known[firsts]).any():
            np.maximum.at(self._known, firsts, ends)
            self.changes += 1

    def known(self) -> np.ndarray:
        """Returns int64[W], the end of the longest known passage from each word on.

        A number that is not larger than that of the word means that there is none.
        """
        return np.maximum.accumulate(self._known)

    def are_long(self, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns bool[P], whether passages are long."""
        return self._can_begin[firsts] & (ends >= self._shortest[firsts])

    def long(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first words and ends of the known passages that are long, int64[P] each."""
        known = self.known()
        firsts = np.flatnonzero(self.are_long(np.arange(len(known)), known))
        return firsts, known[firsts]

    def ranks(self, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns int64[P], the counted characters of passages, 0 for those of texts without rank."""
        return self._ranked[self.ends[ends - 1]] - self._ranked[self.firsts[firsts]]

    def missing(self) -> np.ndarray:
        """Returns the bytes at which the sought passages begin that are not known, int64[P]."""
        is_missing = self.known()[self._sought_firsts] < self._sought_ends
        begins = np.zeros(len(self.firsts), bool)
        begins[self._sought_firsts[is_missing]] = True
        return self.firsts[begins]

    def longer(self) -> np.ndarray:
        """Returns the bytes at which a passage can begin that is longer than all known ones, int64[P].

        Only after the whole training text has been searched for `missing`: what is still missing does not
        occur, and limits the passages around it.
        """
        longest = int(self.ranks(*self.long()).max(initial=0))
        if not longest:
            return np.zeros(0, np.int64)
        words, known = np.arange(len(self.firsts)), self.known()
        is_missing = self._is_sought & (known < self._shortest)
        next_missing = np.minimum.accumulate(np.where(is_missing, words, len(words))[::-1])[::-1]
        limits = np.append(self._shortest - 1, len(words))[next_missing]
        wanted = self._ranked[self.firsts] + longest
        ends = np.searchsorted(self._ranked[self.ends], wanted, side="right") + 1
        ends = np.maximum(ends, self._shortest)
        return self.firsts[self._can_begin & (ends <= np.minimum(limits, self._part_ends))]


def _sums(flags: np.ndarray) -> np.ndarray:
    """Returns int64[N + 1]: element n is the number of true values among the first n."""
    return np.concatenate([[0], np.cumsum(flags, dtype=np.int64)])


_WORD = 8  # bytes that are compared at a time
_WINDOW = 5  # such words in a window
# Pairs of a window of the training text and one of the texts that are compared at a time.
_MAX_PAIRS = 1 << 18
_FACTOR, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_TABLE_BITS = 22
_TABLE_SHIFT = np.uint64(64 - _TABLE_BITS)
# Fills up a block. Occurs nowhere, and is no white space.
_PADDING = 0xFC

assert _WORD * (_WINDOW + 1) - 1 <= MIN_CHARACTERS


@dataclass(frozen=True)
class Copies:
    """The result of `find_copies`.

    Attributes:
      spans: for each text, the verbatim passages as (begin, end) in bytes, merged and in order.
      longest: the longest passage, (text, begin, end); None if there is none.
      offset: where the longest passage begins in the training text, in bytes.
    """

    spans: list[list[tuple[int, int]]]
    longest: tuple[int, int, int] | None
    offset: int


def find_copies(training: TokenText, texts: Sequence[Text], token_bytes: TokenBytes) -> Copies:
    """Finds all verbatim passages of texts in a training text.

    Args:
      training: the training text.
      texts: the texts, which are small: the index takes about 100 bytes for each of theirs.
      token_bytes: the bytes of the tokens of both.
    """
    passages = Passages(texts, token_bytes)
    search = _Search(passages, max((len(text.data) for text in texts), default=0))
    search.read(training, passages.missing)
    # Only if a passage can be longer than the one that was found first.
    search.read(training, passages.longer)
    return Copies(_spans(passages, texts), _longest(passages, search.longest), search.offset)


class _Search:
    """A search for passages in a training text.

    Args:
      passages: what is known about the texts.
      longest_text: bytes of the longest text.
    Attributes:
      longest: the first word and the end of the longest passage; None if there is none.
      offset: where it begins in the training text.
    """

    def __init__(self, passages: Passages, longest_text: int) -> None:
        self.longest: tuple[int, int] | None = None
        self.offset = 0
        self._rank = 0
        self._passages = passages
        # A passage and a byte on both sides of it are in one block, or in this and the next one.
        self._overlap = longest_text + 2
        windows = np.lib.stride_tricks.sliding_window_view(passages.data, _WORD)
        # The 8 bytes from each byte on.
        self._words = np.ascontiguousarray(windows).view("<u8")[:, 0]

    def read(self, training: TokenText, wanted: Callable[[], np.ndarray]) -> None:
        """Reads the training text until no passage is wanted.

        Args:
          training: the training text.
          wanted: returns the bytes of the texts at which wanted passages begin.
        """
        begins = wanted()
        index, changes = _Index(self._words, begins), self._passages.changes
        read, rest = 0, np.zeros(0, np.uint8)
        for block in training.blocks():
            if changes != self._passages.changes:
                begins, changes = wanted(), self._passages.changes
                if len(begins) < 0.9 * index.size:
                    index = _Index(self._words, begins)
            if not len(begins):
                return
            index.restrict(begins)
            data = np.concatenate([rest, block])
            self._read_block(data, read - len(rest), index, wanted)
            read += len(block)
            rest = data[max(0, len(data) - self._overlap) :]

    def _read_block(
        self, data: np.ndarray, offset: int, index: "_Index", wanted: Callable[[], np.ndarray]
    ) -> None:
        """Adds the passages in uint8[N], which is at `offset` of the training text."""
        before = np.full(_WORD, _PADDING, np.uint8)
        after = np.full(-len(data) % _WORD + _WINDOW * _WORD, _PADDING, np.uint8)
        data = np.concatenate([before, data, after])
        words = data.view("<u8")
        windows, lows, highs = index.look_up(words)
        for number, part in enumerate(_parts(highs - lows)):
            if number:
                # Popular windows have many places: what is found already is not compared again.
                index.restrict(wanted())
            pairs = _pairs(windows[part], lows[part], highs[part])
            self._compare(data, words, offset - _WORD, *index.verified(words, *pairs))

    def _compare(
        self,
        data: np.ndarray,
        words: np.ndarray,
        offset: int,
        windows: np.ndarray,
        places: np.ndarray,
    ) -> None:
        """Adds the passages around windows of the training text that are equal to those at places."""
        passages = self._passages
        right = _equal_bytes(words, self._words, windows, places, step=1)
        left = _equal_bytes(words, self._words, windows - 1, places - _WORD, step=-1)
        begins, place_begins = _WORD * windows - left, places - left
        ends, place_ends = _WORD * windows + right, places + right
        # Whole words of the texts, which are whole words of the training text too.
        firsts = np.searchsorted(passages.firsts, place_begins)
        at_word = passages.firsts[np.minimum(firsts, len(passages.firsts) - 1)] == place_begins
        firsts += at_word & ~is_word_break(data[begins - 1])
        last = np.searchsorted(passages.ends, place_ends, side="right")
        at_word = passages.ends[last - 1] == place_ends
        last -= at_word & ~is_word_break(data[ends])
        found = last > firsts
        firsts, last = firsts[found], last[found]
        passages.add(firsts, last)
        ranks = passages.ranks(firsts, last) * passages.are_long(firsts, last)
        if len(ranks) and (best := int(np.argmax(ranks))) >= 0 and ranks[best] > self._rank:
            self._rank = int(ranks[best])
            self.longest = int(firsts[best]), int(last[best])
            shift = (begins - place_begins)[found][best]
            self.offset = int(offset + passages.firsts[firsts[best]] + shift)


class _Index:
    """The windows of texts in which wanted passages begin, by their hashes.

    Args:
      words: uint64[N], the 8 bytes from each byte of the texts on.
      begins: where wanted passages begin.
    """

    def __init__(self, words: np.ndarray, begins: np.ndarray) -> None:
        self._words = words
        self.size = len(begins)
        self.restrict(begins)
        places = np.flatnonzero(self._is_place)
        hashes = _hashes([words[places + _WORD * k] for k in range(_WINDOW)])
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._places = hashes[order], places[order]
        self._table = np.zeros(1 << _TABLE_BITS, bool)
        self._table[hashes >> _TABLE_SHIFT] = True

    def restrict(self, begins: np.ndarray) -> None:
        """Leaves out windows in which no passage begins that is still wanted."""
        self._is_place = np.zeros(len(self._words), bool)
        # One of these windows is at a multiple of 8 bytes in the training text.
        for k in range(_WORD):
            self._is_place[begins + k] = True

    def look_up(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Looks up all windows uint64[N] of a block.

        Returns:
          int64[F] each: the windows that are found, and the ranges of equal hashes.
        """
        count = len(words) - _WINDOW + 1
        hashes = _hashes([words[k : k + count] for k in range(_WINDOW)])
        windows = np.flatnonzero(self._table[hashes >> _TABLE_SHIFT])
        lows = np.searchsorted(self._hashes, hashes[windows])
        highs = np.searchsorted(self._hashes, hashes[windows], side="right")
        found = highs > lows
        return windows[found], lows[found], highs[found]

    def verified(
        self, words: np.ndarray, windows: np.ndarray, entries: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the windows and places that are equal, int64[P] each; one pair for each passage."""
        places = self._places[entries]
        kept = self._is_place[places]
        for k in range(_WINDOW):
            windows, places = windows[kept], places[kept]
            kept = words[windows + k] == self._words[places + _WORD * k]
        windows, places = windows[kept], places[kept]
        # The window before this one is found too, and its passage includes this one.
        is_found = self._is_place[places - _WORD]
        is_found &= words[windows - 1] == self._words[places - _WORD]
        return windows[~is_found], places[~is_found]


def _hashes(words: Sequence[np.ndarray]) -> np.ndarray:
    """Returns uint64[N], the hashes of windows of words uint64[N] each."""
    total = words[0] * _FACTOR
    for word in words[1:]:
        total += word
        total *= _FACTOR
    total ^= total >> _HALF
    total *= _MIX
    return total


def _parts(counts: np.ndarray) -> Iterator[slice]:
    """Yields slices of int64[F] whose sums are about _MAX_PAIRS."""
    groups = np.cumsum(counts) // _MAX_PAIRS
    cuts = [0, *(np.flatnonzero(np.diff(groups)) + 1), len(counts)]
    return (slice(*cut) for cut in itertools.pairwise(cuts))


def _pairs(
    windows: np.ndarray, lows: np.ndarray, highs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns every window with every number of its range, int64[P] each."""
    counts = highs - lows
    starts = np.repeat(lows - (np.cumsum(counts) - counts), counts)
    return np.repeat(windows, counts), starts + np.arange(len(starts))


def _equal_bytes(
    words: np.ndarray, others: np.ndarray, windows: np.ndarray, places: np.ndarray, step: int
) -> np.ndarray:
    """Counts equal bytes from windows of a block and places of the texts on.

    Args:
      words: uint64[N], the block.
      others: uint64[M], the 8 bytes from each byte of the texts on.
      windows, places: int64[P], where to begin.
      step: 1 to count to the right, -1 to the left.
    Returns:
      int64[P].
    """
    equal = np.zeros(len(windows), np.int64)
    active = np.arange(len(windows))
    while len(active):
        differences = words[windows] ^ others[places]
        differ = differences != 0
        in_bytes = differences[differ].view(np.uint8).reshape(-1, _WORD)[:, ::step] != 0
        equal[active[differ]] += np.argmax(in_bytes, axis=1)
        equal[active[~differ]] += _WORD
        active = active[~differ]
        windows, places = windows[~differ] + step, places[~differ] + step * _WORD
    return equal


def _spans(passages: Passages, texts: Sequence[Text]) -> list[list[tuple[int, int]]]:
    """Returns the long passages of each text, merged and without the part that is not counted."""
    firsts, ends = passages.long()
    begins, ends = passages.firsts[firsts], passages.ends[ends - 1]
    numbers = np.searchsorted(passages.text_begins, begins, side="right") - 1
    spans: list[list[tuple[int, int]]] = [[] for _ in texts]
    for number, begin, end in zip(numbers.tolist(), begins.tolist(), ends.tolist(), strict=True):
        shift = int(passages.text_begins[number])
        begin, end = max(begin - shift, texts[number].counted_from), end - shift
        found = spans[number]
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif begin < end:
            found.append((begin, end))
    return spans


def _longest(passages: Passages, words: tuple[int, int] | None) -> tuple[int, int, int] | None:
    """Returns the text, begin and end of a passage."""
    if words is None:
        return None
    begin, end = int(passages.firsts[words[0]]), int(passages.ends[words[1] - 1])
    number = int(np.searchsorted(passages.text_begins, begin, side="right")) - 1
    shift = int(passages.text_begins[number])
    return number, begin - shift, end - shift
