"""GPT-2's tokenizer in TensorFlow operations."""

import tensorflow as tf
import tensorflow_text

from minigpt.environment import hide_tensorflow_log
from minigpt.tokenizers.gpt2 import NUL, SEPARATOR, GPT2Tokenizer
from minigpt.tokenizers.graph.added_tokens import GraphAddedTokens, character_class
from minigpt.tokenizers.graph.base import GraphTokenizer
from minigpt.tokenizers.splitting import CONTRACTIONS, WHITE_SPACE
from minigpt.tokenizers.unicode_tables import ranges

# RE2 has no (?!\S), and its \s is ASCII only. In the published patterns, \s+(?!\S) leaves the last white
# space of a run to the word after it. A first pass therefore cuts there, and \s+ is enough in the second.
_SPACES = character_class(WHITE_SPACE)
_NO_BREAKS = character_class([(9, 9), (0xB, 0xC), *WHITE_SPACE[1:]])
_SIGNS = rf" ?[^{_SPACES}\p{{L}}\p{{N}}]+"
_LAST_SPACE = {
    "gpt2": rf"([{_SPACES}])([{_SPACES}][^{_SPACES}])",
    # A line break belongs to the white space before it.
    "qwen2": rf"([{_SPACES}])([{_NO_BREAKS}][^{_SPACES}])",
}
_WORD = {
    "gpt2": rf"{CONTRACTIONS['gpt2']}| ?\p{{L}}+| ?\p{{N}}+|{_SIGNS}|[{_SPACES}]+",
    "qwen2": rf"{CONTRACTIONS['qwen2']}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_SIGNS}[\r\n]*"
    rf"|[{_SPACES}]*[\r\n]+|[{_SPACES}]+",
}


class GPT2Graph(GraphTokenizer):
    """Runs the same sentencepiece model as `GPT2Tokenizer`."""

    def __init__(self, tokenizer: GPT2Tokenizer) -> None:
        super().__init__(tokenizer)
        self._splitting = tokenizer.splitting
        self._separator_id = tokenizer.pieces.index(bytes([SEPARATOR]))
        with hide_tensorflow_log():  # sentencepiece logs that the model has no normalizer.
            self._encoder = tensorflow_text.SentencepieceTokenizer(
                tokenizer.sentencepiece_model(), out_type=tf.int32
            )
        self._added = None
        if tokenizer.added:
            self._added = GraphAddedTokens(tokenizer.added, tokenizer.normalize, self._normalized)

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if self._added is None:
            return self._ids_between(texts)
        return self._added.ids(texts, self._ids_between)

    def _ids_between(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes texts without added tokens."""
        separator = bytes([SEPARATOR])
        texts = self._normalized(texts)
        texts = tf.strings.regex_replace(
            texts, _LAST_SPACE[self._splitting], rb"\1" + separator + rb"\2"
        )
        texts = tf.strings.regex_replace(texts, _WORD[self._splitting], rb"\0" + separator)
        texts = tf.strings.unicode_transcode(texts, "ISO-8859-1", "UTF-8")
        ids = self._encoder.tokenize(tf.strings.regex_replace(texts, r"\x00", NUL))
        return tf.ragged.boolean_mask(ids, ids != self._separator_id)

    def _normalized(self, texts: tf.Tensor) -> tf.Tensor:
        """Does the same as `GPT2Tokenizer.normalize`."""
        if self._splitting == "gpt2":
            return texts
        # `nfc` keeps these characters too as and where they are.
        separator, too_new = bytes([SEPARATOR]), character_class(ranges("not normalized"))
        marked = tf.strings.regex_replace(texts, f"([{too_new}])", separator + rb"\1" + separator)
        parts = tf.strings.split(marked, separator)
        normalized = tensorflow_text.normalize_utf8(parts.flat_values, "NFC")
        return tf.strings.reduce_join(parts.with_values(normalized), axis=1)
