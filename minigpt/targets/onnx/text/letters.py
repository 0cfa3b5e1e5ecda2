"""Lower case and classes of characters, with the tables of `minigpt.tokenizers.unicode_tables`."""

from typing import Any

import tensorflow as tf

from minigpt.targets.onnx.text.rows import NOTHING, CodePointTable, compact
from minigpt.tokenizers.unicode_tables import lower, ranges

_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = ord("Σ"), ord("σ"), ord("ς")


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

    def apply(self, code_points: Any) -> tuple[Any, Any]:
        """Returns the lower-cased texts.

        Args:
          code_points: int32[B, N], shorter texts padded with NOTHING.
        Returns:
          code points, int32[B, M], shorter texts padded with NOTHING; and their UTF-8, int32[B, M, 4].
        """
        first, second = self._first.look_up(code_points), self._second.look_up(code_points)
        first = tf.where(first == NOTHING, code_points, first)
        sigma = tf.where(self._is_final(code_points), _FINAL_SIGMA, _SMALL_SIGMA)
        first = tf.where(code_points == _SIGMA, sigma, first)
        both = tf.stack([first, second], axis=2)
        lowered, _ = compact(tf.reshape(both, [tf.shape(code_points)[0], -1]))
        return lowered, utf8_of(lowered)

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
    flags, _ = compact(tf.where(is_kept, tf.cast(is_cased, tf.int32), NOTHING))
    flags = tf.pad(flags, [[0, 0], [1, 2]])
    place = tf.cumsum(tf.cast(is_kept, tf.int32), axis=1)
    place = tf.minimum(place + offset, tf.shape(flags)[1] - 1)
    return tf.gather(flags, tf.maximum(place, 0), axis=1, batch_dims=1) == 1


def utf8_of(code_points: Any) -> Any:
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
