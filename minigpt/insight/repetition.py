"""How much a text repeats itself: single lines, paragraphs, and passages of 50 bytes."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WINDOW_BYTES = 50
# Shorter paragraphs are sentences and headings, which people repeat.
MIN_PARAGRAPH_CHARACTERS = 40
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n")
# Shorter lines are repeated in every play and program: "GLOUCESTER:", "    return None". They count only if
# they make up a large part of the text.
MIN_LINE_CHARACTERS, SHORT_LINE_SHARE = 20, 0.3
# Odd, so that it has an inverse modulo 2^64.
_BASE = 0x9E3779B97F4A7C15
_POSITION_BITS = 22


def most_repeated_line(texts: Sequence[str]) -> tuple[str, int, float]:
    """Returns the repeated line that takes most of a text.

    Only lines of at least 20 characters, at least half of them letters and digits, are counted, and shorter
    ones that make up at least 30% of the text.

    Returns:
      The line without white space around it, how often it occurs, and its share of the characters, 0 to
      1; "", 0 and 0 if no line is repeated.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(map(str.strip, text.splitlines()))
    characters = max(1, sum(map(len, texts)))
    long = (
        (n * len(line), line)
        for line, n in counts.items()
        if n > 1
        and has_words(line)
        and (len(line) >= MIN_LINE_CHARACTERS or n * len(line) >= SHORT_LINE_SHARE * characters)
    )
    taken, line = max(long, default=(0, ""))
    return line, counts[line] if taken else 0, taken / characters


def copied_paragraphs(texts: Sequence[str]) -> tuple[float, str]:
    """Returns the share of the characters that is in copies of earlier paragraphs, and the first copy.

    Paragraphs are separated by blank lines; short ones do not count as copies.
    """
    seen: set[str] = set()
    characters = copied = 0
    example = ""
    for text in texts:
        for paragraph in map(str.strip, _BLANK_LINES.split(text)):
            characters += len(paragraph)
            if len(paragraph) < MIN_PARAGRAPH_CHARACTERS:
                continue
            if paragraph in seen:
                copied += len(paragraph)
                example = example or paragraph
            seen.add(paragraph)
    return copied / max(1, characters), example


@dataclass(frozen=True)
class Repetition:
    """How much of a text occurs in it again.

    Attributes:
      distinct: number of distinct windows of 50 bytes, divided by the number of windows.
      period: the most frequent distance between a window and its next copy, in bytes; 0 without copies.
      periodic: share of the windows whose next copy is at this distance.
      start: the byte at which such a window is.
    """

    distinct: float
    period: int
    periodic: float
    start: int


def has_words(line: str) -> bool:
    """Returns whether at least half of a line is letters and digits: no rulers, no tables."""
    return 2 * sum(map(str.isalnum, line)) >= len(line)


def measure_repetition(data: bytes) -> Repetition:
    """Finds copies of passages within a text of at most 4 MB."""
    data = data[: 1 << _POSITION_BITS]
    begins = np.arange(len(data) - WINDOW_BYTES + 1)
    hashes = passage_hashes(np.frombuffer(data, np.uint8), begins, begins + WINDOW_BYTES)
    if not len(hashes):
        return Repetition(1.0, 0, 0.0, 0)
    # Sorted by hash, then by position: 42 bits of the hash are enough for 4 million windows.
    positions = np.arange(len(hashes), dtype=np.uint64)
    keys = np.sort((hashes >> _POSITION_BITS << _POSITION_BITS) | positions)
    same = (keys[1:] ^ keys[:-1]) >> _POSITION_BITS == 0
    distinct = (len(keys) - np.count_nonzero(same)) / len(keys)
    distances = (keys[1:] - keys[:-1])[same].astype(np.int64)
    if not len(distances):
        return Repetition(distinct, 0, 0.0, 0)
    counts = np.bincount(distances)
    period = int(counts.argmax())
    first = keys[:-1][same][distances == period] & ((1 << _POSITION_BITS) - 1)
    return Repetition(distinct, period, int(counts[period]) / len(keys), int(first.min()))


def passage_hashes(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns a polynomial hash modulo 2^64 of each passage of a text (Karp and Rabin 1987).

    Args:
      data: uint8[N].
      begins, ends: integers[n], where the passages begin and end.
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
