"""The byte-pair tokenizer in TensorFlow operations."""

import tensorflow as tf
import tensorflow_text

from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.escapes import ESCAPE, ESCAPED_ESCAPE, ESCAPED_SPACE, SPACE
from minigpt.tokenizers.graph.base import GraphTokenizer


class BytePairGraph(GraphTokenizer):
    """Runs the same sentencepiece model as `BytePairTokenizer`."""

    def __init__(self, tokenizer: BytePairTokenizer) -> None:
        super().__init__(tokenizer)
        self._encoder = tensorflow_text.SentencepieceTokenizer(tokenizer.model, out_type=tf.int32)

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.regex_replace(texts, ESCAPE, ESCAPED_ESCAPE)
        return self._encoder.tokenize(tf.strings.regex_replace(texts, SPACE, ESCAPED_SPACE))

    def _restore(self, texts: tf.Tensor) -> tf.Tensor:
        texts = tf.strings.regex_replace(texts, ESCAPE + r"\z", "")
        texts = tf.strings.regex_replace(texts, ESCAPED_SPACE, SPACE)
        return tf.strings.regex_replace(texts, ESCAPED_ESCAPE, ESCAPE)
