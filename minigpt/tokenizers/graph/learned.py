"""The tokenizers other than GPT-2's, in TensorFlow operations."""

import tensorflow as tf
import tensorflow_text

from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.given import SentencePieceTokenizer
from minigpt.tokenizers.graph.graph_tokenizer import GraphTokenizer
from minigpt.tokenizers.listed import ListedTokenizer
from minigpt.tokenizers.vocabulary import ESCAPE, ESCAPED_ESCAPE, ESCAPED_SPACE, SPACE
from minigpt.tokenizers.word import SEPARATE, WHITE_SPACE, WordTokenizer


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


class SentencePieceGraph(GraphTokenizer):
    """Runs the same sentencepiece model as `SentencePieceTokenizer`."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        super().__init__(tokenizer)
        self._encoder = tensorflow_text.SentencepieceTokenizer(tokenizer.data, out_type=tf.int32)
        self._space = "^ " if tokenizer.has_space else "^"

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._encoder.tokenize(texts)

    def _restore(self, texts: tf.Tensor) -> tf.Tensor:
        return tf.strings.regex_replace(texts, self._space, "", replace_global=False)


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
    """Returns the UTF-8 bytes of characters int32[N]: The Unicode Standard, table 3-6.

    Returns:
      int32[N, 4], padded with any bytes; and int32[N], the numbers of bytes.
    """
    lengths = sum(tf.cast(code_points >= first, tf.int32) for first in (0, 0x80, 0x800, 0x10000))
    shifts = 6 * tf.maximum(lengths[:, None] - 1 - tf.range(4), 0)
    bits = tf.bitwise.right_shift(code_points[:, None], shifts)
    marks = tf.gather([0, 0, 0xC0, 0xE0, 0xF0], lengths)
    return tf.concat([(marks + bits[:, 0])[:, None], 0x80 + bits[:, 1:] % 64], 1), lengths


class WordGraph(GraphTokenizer):
    """Looks up words, what is between white space, or characters; see `ListedTokenizer.are_words`."""

    def __init__(self, tokenizer: WordTokenizer | ListedTokenizer) -> None:
        super().__init__(tokenizer)
        self._are_words = getattr(tokenizer, "are_words", True)
        # A table cannot be empty. No text contains the empty word.
        known = {piece: i for i, piece in enumerate(tokenizer.text_pieces) if piece}
        words, ids = [b"", *known], [tokenizer.unknown_id, *known.values()]
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(words, ids, tf.string, tf.int32),
            default_value=tokenizer.unknown_id,
        )

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if not self._separator:
            words = tf.strings.unicode_split(texts, "UTF-8")
        else:
            texts = tf.strings.regex_replace(texts, WHITE_SPACE, " ")
            marked = tf.strings.regex_replace(texts, SEPARATE, r" \0 ")
            words = tf.strings.split(marked if self._are_words else texts)
        return words.with_flat_values(self._table.lookup(words.flat_values))
