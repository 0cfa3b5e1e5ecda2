"""The words of some texts, and the passages of them that are known to occur in a training text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minigpt.insight.token_bytes import DOCUMENT_END, FIRST_MARK, UNKNOWN, TokenBytes

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
