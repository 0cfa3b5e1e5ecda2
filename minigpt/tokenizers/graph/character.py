"""The character tokenizer in TensorFlow operations."""

import tensorflow as tf

from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.graph.base import GraphTokenizer


class CharacterGraph(GraphTokenizer):
    """Looks up every code point in a table, and the UTF-8 bytes of those without a token in another."""

    def __init__(self, tokenizer: CharacterTokenizer) -> None:
        super().__init__(tokenizer)
        self._table = tf.constant(tokenizer.table)
        self._byte_table = tf.constant(tokenizer.byte_table)

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        code_points = tf.strings.unicode_decode(texts, "UTF-8")
        points = code_points.flat_values
        ids = tf.gather(self._table, tf.minimum(points, tf.size(self._table) - 1))
        utf8, lengths = _utf8(points)
        is_known = ids >= 0
        # int32[N, 4]: the id of each character, or the ids of its bytes.
        ids = tf.where(is_known[:, None], ids[:, None], tf.gather(self._byte_table, utf8))
        lengths = tf.where(is_known, 1, lengths)
        ids = tf.RaggedTensor.from_tensor(ids, lengths, row_splits_dtype=tf.int64)
        return code_points.with_flat_values(ids).merge_dims(1, 2)


def _utf8(code_points: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the UTF-8 bytes of characters: The Unicode Standard, table 3-6.

    Args:
      code_points: int32[N].
    Returns:
      int32[N, 4], padded with any bytes; and int32[N], the numbers of bytes.
    """
    lengths = sum(tf.cast(code_points >= first, tf.int32) for first in (0, 0x80, 0x800, 0x10000))
    shifts = 6 * tf.maximum(lengths[:, None] - 1 - tf.range(4), 0)
    bits = tf.bitwise.right_shift(code_points[:, None], shifts)
    marks = tf.gather([0, 0, 0xC0, 0xE0, 0xF0], lengths)
    return tf.concat([(marks + bits[:, 0])[:, None], 0x80 + bits[:, 1:] % 64], 1), lengths
