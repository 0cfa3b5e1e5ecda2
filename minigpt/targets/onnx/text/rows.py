"""Rows of numbers, shorter ones padded with NOTHING, and tables of code points."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

NOTHING = -1
_PAGE = 256
_PAGES = 0x110000 // _PAGE


def compact(values: Any) -> tuple[Any, Any]:
    """Moves the values of each row to its beginning, in their order.

    Args:
      values: int32[B, M], B > 0, NOTHING anywhere.
    Returns:
      int32[B, W], W that of the longest row, NOTHING at the end only; and int32[B], the lengths.
    """
    is_value = values != NOTHING
    lengths = tf.reduce_sum(tf.cast(is_value, tf.int32), axis=1)
    rows, width = tf.shape(values)[0], tf.shape(values)[1]
    counts = tf.cumsum(tf.cast(is_value, tf.int32), axis=1)
    # What is nothing goes to one more column.
    columns = tf.where(is_value, counts - 1, width)
    row_of = tf.range(rows)[:, None] + tf.zeros_like(columns)
    found = tf.tensor_scatter_nd_update(
        tf.fill([rows, width + 1], NOTHING), tf.stack([row_of, columns], axis=2), values
    )
    return found[:, : tf.reduce_max(tf.concat([lengths, [0]], 0))], lengths


def flat(values: Any) -> Any:
    """[B, N, K] → [B, N·K], B > 0."""
    return tf.reshape(values, [tf.shape(values)[0], -1])


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

    def ids(self, code_points: Any, utf8: Any) -> Any:
        """int32[B, N], int32[B, N, 4] → int32[B, 4·N], NOTHING in many places."""
        starts = [0, 0x80, 0x800, 0x10000]
        ids = tf.where(
            code_points[:, :, None] >= starts,
            tf.gather(tf.constant(self._byte_ids), utf8),
            NOTHING,
        )
        known = self._known.look_up(code_points)[:, :, None]
        alone = tf.pad(known, [[0, 0], [0, 0], [0, 3]], constant_values=NOTHING)
        ids = tf.where(known != NOTHING, alone, ids)
        for code_point, sequence in self._sequences.items():
            padded = [*sequence, *[NOTHING] * (4 - len(sequence))]
            ids = tf.where(code_points[:, :, None] == code_point, padded, ids)
        return flat(ids)
