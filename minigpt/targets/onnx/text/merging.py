"""Byte-pair merging in operators that ONNX has."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.targets.onnx.text.rows import NOTHING, compact

NO_RANK = np.iinfo(np.int32).max
# Places tried for a row: one after the other at first; in all before the table grows.
_NEAR, _TRIES = 64, 4096


class PairTable:
    """The rank and the result of every merge.

    The pairs are in one array, at the offset of the left token plus the right token. Offsets are chosen so
    that no two pairs have one place (Tarjan and Yao 1979, "Storing a sparse table": row displacement).

    Args:
      merges: (left id, right id) → (rank, merged id), at least one.
      lefts: the number of possible left ids.
      width: the number of possible right ids.
    """

    def __init__(
        self, merges: Mapping[tuple[int, int], tuple[int, int]], lefts: int, width: int
    ) -> None:
        rights: dict[int, list[int]] = defaultdict(list)
        for left, right in merges:
            rights[left].append(right)
        self._offsets = np.zeros(lefts, np.int32)
        used = np.zeros(2 * len(merges) + 2 * width, bool)
        draw, first_free = np.random.default_rng(0), 0
        for left, row in sorted(rights.items(), key=lambda item: (-len(item[1]), item[0])):
            columns = np.array(row)
            offset, tries = max(0, first_free - int(columns.min())), 0
            while used[offset + columns].any():
                tries += 1
                # If most places are taken, searching for the first free ones takes too long.
                offset = offset + 1 if tries < _NEAR else int(draw.integers(len(used) - width))
                if tries % _TRIES == 0 or offset + width > len(used):
                    used = np.concatenate([used, np.zeros(len(used), bool)])
            used[offset + columns] = True
            self._offsets[left] = offset
            while used[first_free]:
                first_free += 1
        size = int(self._offsets.max()) + width
        self._lefts = np.full(size, NOTHING, np.int32)
        self._ranks, self._results = np.zeros(size, np.int32), np.zeros(size, np.int32)
        for (left, right), (rank, result) in merges.items():
            place = self._offsets[left] + right
            self._lefts[place], self._ranks[place], self._results[place] = left, rank, result

    def look_up(self, lefts: Any, rights: Any) -> tuple[Any, Any]:
        """Returns ranks and results of pairs int32[B, N]; rank NO_RANK for those that do not merge."""
        exists = (lefts >= 0) & (rights >= 0)
        known = tf.maximum(lefts, 0)
        places = tf.gather(tf.constant(self._offsets), known) + tf.maximum(rights, 0)
        exists &= tf.equal(tf.gather(tf.constant(self._lefts), places), known)
        ranks = tf.where(exists, tf.gather(tf.constant(self._ranks), places), NO_RANK)
        return ranks, tf.gather(tf.constant(self._results), places)


def merge(ids: Any, table: PairTable) -> Any:
    """Merges neighbors in the order of their ranks, equal ones from left to right.

    Args:
      ids: int32[B, N], NOTHING at the ends of shorter rows.
      table: the merges. The result of one has only higher ranks than it with its neighbors.
    Returns:
      int32[B, M], M ≤ N.
    """

    def best(ids: Any) -> tuple[Any, Any, Any]:
        after = tf.pad(ids[:, 1:], [[0, 0], [0, 1]], constant_values=NOTHING)
        ranks, results = table.look_up(ids, after)
        # A row without pairs has NO_RANK everywhere.
        lowest = tf.reduce_min(ranks, axis=1, keepdims=True)
        is_best = tf.equal(ranks, lowest) & (ranks < NO_RANK)
        # In "a a a", only the first pair is merged in this pass.
        is_first = tf.equal(tf.cumsum(tf.cast(is_best, tf.int32), axis=1), 1)
        return is_best & (is_first | tf.not_equal(ids, after)), results, after

    def merge_best(ids: Any, chosen: Any, results: Any) -> tuple[Any, Any, Any]:
        is_second = tf.pad(chosen[:, :-1], [[0, 0], [1, 0]])
        ids = compact(tf.where(is_second, NOTHING, tf.where(chosen, results, ids)))[0]
        chosen, results, _ = best(ids)
        return ids, chosen, results

    if_empty = tf.pad(ids, [[0, 0], [0, 1]], constant_values=NOTHING)
    any_width = tf.TensorShape([None, None])
    chosen, results, _ = best(if_empty)
    found = tf.while_loop(
        lambda ids, chosen, results: tf.reduce_any(chosen),
        merge_best,
        (if_empty, chosen, results),
        shape_invariants=(any_width,) * 3,
    )
    return found[0]
