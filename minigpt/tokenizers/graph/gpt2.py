"""GPT-2's tokenizer in TensorFlow operations."""

import tensorflow as tf
import tensorflow_text

from minigpt.environment import hide_tensorflow_log
from minigpt.tokenizers.gpt2 import NUL, SEPARATOR, WHITE_SPACE, GPT2Tokenizer
from minigpt.tokenizers.graph.base import GraphTokenizer

# RE2 has no (?!\S), and its \s is ASCII only. In the published pattern, \s+(?!\S) leaves the last white
# space of a run to the word after it. A first pass therefore cuts there, and \s+ is enough in the second.
_SPACES = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in WHITE_SPACE)
_LAST_SPACE = rf"([{_SPACES}])([{_SPACES}][^{_SPACES}])"
_WORD = (
    r"'(?:[stmd]|re|ve|ll)"
    r"| ?\p{L}+"
    r"| ?\p{N}+"
    rf"| ?[^{_SPACES}\p{{L}}\p{{N}}]+"
    rf"|[{_SPACES}]+"
)


class GPT2Graph(GraphTokenizer):
    """Runs the same sentencepiece model as `GPT2Tokenizer`."""

    def __init__(self, tokenizer: GPT2Tokenizer) -> None:
        super().__init__(tokenizer)
        self._separator_id = tokenizer.pieces.index(bytes([SEPARATOR]))
        with hide_tensorflow_log():  # sentencepiece logs that the model has no normalizer.
            self._encoder = tensorflow_text.SentencepieceTokenizer(
                tokenizer.sentencepiece_model(), out_type=tf.int32
            )

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        separator = bytes([SEPARATOR])
        texts = tf.strings.regex_replace(texts, _LAST_SPACE, rb"\1" + separator + rb"\2")
        texts = tf.strings.regex_replace(texts, _WORD, rb"\0" + separator)
        texts = tf.strings.unicode_transcode(texts, "ISO-8859-1", "UTF-8")
        ids = self._encoder.tokenize(tf.strings.regex_replace(texts, r"\x00", NUL))
        return tf.ragged.boolean_mask(ids, ids != self._separator_id)
