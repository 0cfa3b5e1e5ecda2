"""The word tokenizer in TensorFlow operations."""

import tensorflow as tf

from minigpt.tokenizers.graph.base import GraphTokenizer
from minigpt.tokenizers.word import SEPARATE, SPECIAL_TOKENS, WHITE_SPACE, WordTokenizer


class WordGraph(GraphTokenizer):
    """Splits at white space and around punctuation marks, and looks up every word in a table."""

    def __init__(self, tokenizer: WordTokenizer) -> None:
        super().__init__(tokenizer)
        # A table cannot be empty. No text contains the empty word.
        words = [b"", *tokenizer.pieces[SPECIAL_TOKENS:]]
        ids = [tokenizer.unknown_id, *range(SPECIAL_TOKENS, tokenizer.vocab_size)]
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(words, ids, tf.string, tf.int32),
            default_value=tokenizer.unknown_id,
        )

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.regex_replace(texts, WHITE_SPACE, " ")
        words = tf.strings.split(tf.strings.regex_replace(texts, SEPARATE, r" \0 "))
        return words.with_flat_values(self._table.lookup(words.flat_values))
