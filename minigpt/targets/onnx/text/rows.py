"""Rows of numbers, shorter ones padded with NOTHING, and tables of code points."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.tokenizers.unicode_tables import lower, ranges

NOTHING = -1
_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = ord("Σ"), ord("σ"), ord("ς")
_PAGE = 256
_PAGES = 0x110000 // _PAGE


def lengths_of(rows: Any) -> Any:
    """Returns int32[B], how many values of int32[B, N] are not NOTHING."""
    return tf.reduce_sum(tf.cast(rows != NOTHING, tf.int32), axis=1)


def compact(values: Any) -> Any:
    """Moves the values of each row to its beginning, in their order.

    Args:
      values: int32[B, M], B > 0, NOTHING anywhere.
    Returns:
      int32[B, W], W that of the longest row, NOTHING at the end only.
    """
    is_value = values != NOTHING
    rows, width = tf.shape(values)[0], tf.shape(values)[1]
    counts = tf.cumsum(tf.cast(is_value, tf.int32), axis=1)
    # What is nothing goes to one more column.
    columns = tf.where(is_value, counts - 1, width)
    row_of = tf.range(rows)[:, None] + tf.zeros_like(columns)
    found = tf.tensor_scatter_nd_update(
        tf.fill([rows, width + 1], NOTHING), tf.stack([row_of, columns], axis=2), values
    )
    return found[:, : tf.reduce_max(tf.concat([lengths_of(values), [0]], 0))]


def flat(values: Any) -> Any:
    """[B, N, K] → [B, N·K], B > 0."""
    return tf.reshape(values, [tf.shape(values)[0], -1])


def shifted(values: Any, offset: int, filling: int = NOTHING) -> Any:
    """Returns for each place of int32[B, N] what is `offset` places later."""
    if offset < 0:
        padded = tf.pad(values, [[0, 0], [-offset, 0]], constant_values=filling)
        return padded[:, : tf.shape(values)[1]]
    return tf.pad(values, [[0, 0], [0, offset]], constant_values=filling)[:, offset:]


def padded_to(length: int, values: Iterable[int]) -> list[int]:
    """Returns a list of numbers with NOTHING behind them."""
    values = list(values)
    return [*values, *[NOTHING] * (length - len(values))]


def utf8_ids(code_points: Any, byte_ids: np.ndarray) -> Any:
    """Returns the ids of the bytes of characters.

    Args:
      code_points: int32[B, N].
      byte_ids: int32[256].
    Returns:
      int32[B, N, 4]; NOTHING behind the bytes of a character.
    """
    is_byte = code_points[:, :, None] >= [0, 0x80, 0x800, 0x10000]
    return tf.where(is_byte, tf.gather(tf.constant(byte_ids), _utf8(code_points)), NOTHING)


def _utf8(code_points: Any) -> Any:
    """int32[B, N] → int32[B, N, 4], padded with 0: The Unicode Standard, table 3-6."""
    known = tf.maximum(code_points, 0)
    more = sum(tf.cast(known >= first, tf.int32) for first in (0x80, 0x800, 0x10000))
    places = tf.range(4)
    # Bits that are to the right of those in each byte.
    divisors = tf.constant([1, 64, 4096, 262144])
    shifts = tf.gather(divisors, tf.maximum(more[:, :, None] - places, 0))
    bits = known[:, :, None] // shifts
    marks = tf.gather(tf.constant([0, 0xC0, 0xE0, 0xF0]), more)[:, :, None]
    data = tf.where(places == 0, marks + bits, 0x80 + bits % 64)
    return tf.where(places <= more[:, :, None], data, 0)


class CodePointTable:
    """A number for each code point, in pages: most of Unicode is one empty page.

    Args:
      values: code point → number from 0 on.
    """

    def __init__(self, values: Mapping[int, int]) -> None:
        pages: dict[int, np.ndarray] = {}
        for code_point, value in values.items():
            page = pages.setdefault(code_point // _PAGE, np.full(_PAGE, NOTHING, np.int32))
            page[code_point % _PAGE] = value
        page_of = np.zeros(_PAGES, np.int32)
        # Equal pages are stored once.
        different = {np.full(_PAGE, NOTHING, np.int32).tobytes(): 0}
        for number, page in pages.items():
            page_of[number] = different.setdefault(page.tobytes(), len(different))
        self._page_of = page_of
        self._pages = np.frombuffer(b"".join(different), np.int32)

    def look_up(self, code_points: Any) -> Any:
        """Returns the numbers of int32[...] code points; NOTHING for those without one."""
        known = tf.maximum(code_points, 0)
        page = tf.gather(tf.constant(self._page_of), known // _PAGE)
        found = tf.gather(tf.constant(self._pages), page * _PAGE + known % _PAGE)
        return tf.where(code_points >= 0, found, NOTHING)


class CharacterIds:
    """Ids of single characters: one, those of its bytes, or those of its escape sequence.

    Args:
      known: code point → id.
      byte_ids: byte → id, of those that other characters contain.
      sequences: code point → up to four ids.
    """

    def __init__(
        self,
        known: Mapping[int, int],
        byte_ids: Mapping[int, int],
        sequences: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self._known = CodePointTable(known)
        self._byte_ids = np.full(256, NOTHING, np.int32)
        self._byte_ids[list(byte_ids)] = list(byte_ids.values())
        self._sequences = sequences or {}

    def ids(self, code_points: Any) -> Any:
        """Code points int32[B, N] → ids int32[B, T], shorter texts padded with NOTHING."""
        ids = utf8_ids(code_points, self._byte_ids)
        known = self._known.look_up(code_points)[:, :, None]
        alone = tf.pad(known, [[0, 0], [0, 0], [0, 3]], constant_values=NOTHING)
        ids = tf.where(known != NOTHING, alone, ids)
        for code_point, sequence in self._sequences.items():
            is_escaped = code_points[:, :, None] == code_point
            ids = tf.where(is_escaped, padded_to(4, sequence), ids)
        return compact(flat(ids))


def members(code_points: list[tuple[int, int]]) -> CodePointTable:
    """Returns a table that has 1 for the code points in a list of ranges."""
    return CodePointTable({c: 1 for first, last in code_points for c in range(first, last + 1)})


class LowerCase:
    """Lower-cases texts as `unicode_tables.lower` does."""

    def __init__(self) -> None:
        capitals = [c for first, last in ranges("capital") for c in range(first, last + 1)]
        texts = {c: lower(chr(c)) for c in capitals}
        self._first = CodePointTable({c: ord(text[0]) for c, text in texts.items()})
        # Only İ has two characters in lower case.
        self._second = CodePointTable({c: ord(t[1]) for c, t in texts.items() if len(t) > 1})
        self._cased, self._ignorable = members(ranges("cased")), members(ranges("ignorable"))

    def apply(self, code_points: Any) -> Any:
        """Returns the lower-cased texts: int32[B, N] → int32[B, M], shorter ones padded with NOTHING."""
        first, second = self._first.look_up(code_points), self._second.look_up(code_points)
        first = tf.where(first == NOTHING, code_points, first)
        sigma = tf.where(self._is_final(code_points), _FINAL_SIGMA, _SMALL_SIGMA)
        first = tf.where(code_points == _SIGMA, sigma, first)
        both = tf.stack([first, second], axis=2)
        return compact(flat(both))

    def _is_final(self, code_points: Any) -> Any:
        """Returns bool[B, N]: Final_Sigma of The Unicode Standard, table 3-17, if this is a Σ."""
        is_cased = self._cased.look_up(code_points) == 1
        is_between = self._ignorable.look_up(code_points) == 1
        # What precedes may be both; what follows belongs to the ignorable characters then.
        before = _cased_neighbor(is_cased, (code_points >= 0) & (~is_between | is_cased), -1)
        after = _cased_neighbor(is_cased, (code_points >= 0) & ~is_between, 1)
        return before & ~after


def _cased_neighbor(is_cased: Any, is_kept: Any, offset: int) -> Any:
    """Returns whether the next character that is kept, on one side of each that is kept, is cased."""
    flags = compact(tf.where(is_kept, tf.cast(is_cased, tf.int32), NOTHING))
    flags = tf.pad(flags, [[0, 0], [1, 2]])
    place = tf.cumsum(tf.cast(is_kept, tf.int32), axis=1)
    place = tf.minimum(place + offset, tf.shape(flags)[1] - 1)
    return tf.gather(flags, tf.maximum(place, 0), axis=1, batch_dims=1) == 1
