"""Token ids of single characters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.targets.onnx.text.rows import NOTHING, CodePointTable, flat


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
