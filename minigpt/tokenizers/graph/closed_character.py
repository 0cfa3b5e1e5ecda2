"""The character tokenizer of minigpt 0.1 in TensorFlow operations."""

import tensorflow as tf

from minigpt.tokenizers.closed_character import ClosedCharacterTokenizer
from minigpt.tokenizers.graph.base import GraphTokenizer


class ClosedCharacterGraph(GraphTokenizer):
    """Looks up every code point in a table."""

    def __init__(self, tokenizer: ClosedCharacterTokenizer) -> None:
        super().__init__(tokenizer)
        self._table = tf.constant(tokenizer.table)

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        code_points = tf.strings.unicode_decode(texts, "UTF-8")
        last = tf.size(self._table) - 1
        return code_points.with_flat_values(
            tf.gather(self._table, tf.minimum(code_points.flat_values, last))
        )
