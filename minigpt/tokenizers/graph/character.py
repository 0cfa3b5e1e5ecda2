"""The character tokenizer in TensorFlow operations."""

import tensorflow as tf

from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.graph.base import GraphTokenizer


class CharacterGraph(GraphTokenizer):
    """Looks up every code point in a table."""

    def __init__(self, tokenizer: CharacterTokenizer) -> None:
        super().__init__(tokenizer)
        self._table = tf.constant(tokenizer.table)

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        code_points = tf.strings.unicode_decode(texts, "UTF-8")
        last = tf.size(self._table) - 1
        return code_points.with_flat_values(
            tf.gather(self._table, tf.minimum(code_points.flat_values, last))
        )
