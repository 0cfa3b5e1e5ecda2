"""Unicode code points of texts, and tables that map them to token ids."""

from collections.abc import Iterable, Sequence

import numpy as np

from minigpt.tokenizers.grouping import checked
from minigpt.tokenizers.unicode_tables import lower

CODE_POINTS = 0x110000


def code_points(text: str, lowercase: bool = False) -> np.ndarray:
    """Returns the code points of a text, uint32[T]; of its lower-cased form if `lowercase`."""
    if lowercase:
        text = lower(text)
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def characters_by_frequency(texts: Iterable[str], lowercase: bool) -> list[str]:
    """Returns the characters of texts, the most frequent first, ties in the order of code points.

    Raises:
      ValueError: a text contains half of a surrogate pair.
    """
    counts = np.zeros(CODE_POINTS, np.int64)
    for text in checked(texts):
        found = np.bincount(code_points(text, lowercase))
        counts[: len(found)] += found
    ranked = np.argsort(-counts, kind="stable")
    return [chr(c) for c in ranked[: np.count_nonzero(counts)]]


def id_table(characters: Sequence[str], first_id: int, other: int) -> np.ndarray:
    """Returns the id of every code point, int32; the last entry is for all larger code points.

    Args:
      characters: the characters of the ids from `first_id` on.
      first_id: the id of the first character.
      other: the entry of all other code points.
    Raises:
      ValueError: an entry is not a single code point or is a duplicate.
    """
    if any(len(c) != 1 for c in characters) or len(set(characters)) != len(characters):
        raise ValueError("a vocabulary entry is not a single character or is a duplicate")
    points = np.array([ord(c) for c in characters], np.int64)
    table = np.full(points.max(initial=-1) + 2, other, np.int32)
    table[points] = np.arange(first_id, first_id + len(characters))
    return table


def look_up(table: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns the entries of code points in a table of `id_table`."""
    return table[np.minimum(points, len(table) - 1)]
