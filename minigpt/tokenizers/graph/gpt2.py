"""GPT-2's tokenizer and its added tokens in TensorFlow operations."""

from collections.abc import Callable, Sequence

import tensorflow as tf
import tensorflow_text

from minigpt.environment import hide_tensorflow_log
from minigpt.tokenizers import gpt2
from minigpt.tokenizers.graph.graph_tokenizer import GraphTokenizer
from minigpt.tokenizers.unicode_tables import ranges

# A byte that never occurs in UTF-8, on both sides of a token.
_MARK = bytes([0xFE])


def character_class(code_points: Sequence[tuple[int, int]]) -> str:
    """Returns ranges of code points in the terms of RE2, to be written between brackets."""
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in code_points)


class GraphAddedTokens(tf.Module):
    """Finds the added tokens of a `GPT2Tokenizer`.

    Args:
      normalize: normalizes text, in Python; `normalized` in TensorFlow: string[N] → string[N].
    """

    def __init__(
        self,
        tokens: Sequence[gpt2.AddedToken],
        normalize: Callable[[str], str],
        normalized: Callable[[tf.Tensor], tf.Tensor],
    ) -> None:
        super().__init__()
        self._as_they_are = _Search({t.content: t.id for t in tokens if not t.normalized})
        self._in_normalized = _Search({normalize(t.content): t.id for t in tokens if t.normalized})
        self._normalized = normalized

    def ids(
        self, texts: tf.Tensor, encode: Callable[[tf.Tensor], tf.RaggedTensor]
    ) -> tf.RaggedTensor:
        """Encodes texts: string[N] → ragged int32[N, None]. `encode` encodes what is between the tokens."""
        parts, ids = self._as_they_are.split(texts)
        # What is a token already is an empty text for the second search.
        again, more = self._in_normalized.split(self._normalized(parts.flat_values))
        found = tf.maximum(tf.repeat(ids.flat_values, again.row_lengths()), more.flat_values)
        is_token = found >= 0
        added = tf.RaggedTensor.from_row_lengths(found[is_token], tf.cast(is_token, tf.int64))
        by_part = tf.concat([encode(again.flat_values), added], axis=1)
        by_text = by_part.with_row_splits_dtype(tf.int64)
        for splits in (again.row_splits, parts.row_splits):
            by_text = tf.RaggedTensor.from_row_splits(by_text, splits).merge_dims(1, 2)
        return by_text


class _Search(tf.Module):
    """Finds tokens that have the same value of `normalized`; `ids`: text to search for → id."""

    def __init__(self, ids: dict[str, int]) -> None:
        super().__init__()
        self._pattern = f"({gpt2.alternatives(ids)})" if ids else None
        # A table cannot be empty. No token is the empty text.
        table = {"": -1, **ids}
        self._ids = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                list(table), list(table.values()), tf.string, tf.int32
            ),
            default_value=-1,
        )

    def split(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Splits string[N] at the tokens.

        Returns:
          ragged string[N, None]: texts and tokens alternately, in which the tokens are empty; and
          ragged int32[N, None]: their ids, -1 for texts.
        """
        if self._pattern:
            texts = tf.strings.regex_replace(texts, self._pattern, _MARK + rb"\1" + _MARK)
        parts = tf.strings.split(texts, _MARK)
        ids = self._ids.lookup(parts.flat_values)
        return parts.with_values(tf.where(ids < 0, parts.flat_values, "")), parts.with_values(ids)


# RE2 has no (?!\S), and its \s is ASCII only. In the published patterns, \s+(?!\S) leaves the last white
# space of a run to the word after it. A first pass therefore cuts there, and \s+ is enough in the second.
_SPACES = character_class(gpt2.WHITE_SPACE)
_NO_BREAKS = character_class([(9, 9), (0xB, 0xC), *gpt2.WHITE_SPACE[1:]])
_SIGNS = rf" ?[^{_SPACES}\p{{L}}\p{{N}}]+"
_LAST_SPACE = {
    "gpt2": rf"([{_SPACES}])([{_SPACES}][^{_SPACES}])",
    # A line break belongs to the white space before it.
    "qwen2": rf"([{_SPACES}])([{_NO_BREAKS}][^{_SPACES}])",
}
_WORD = {
    "gpt2": rf"{gpt2.CONTRACTIONS['gpt2']}| ?\p{{L}}+| ?\p{{N}}+|{_SIGNS}|[{_SPACES}]+",
    "qwen2": rf"{gpt2.CONTRACTIONS['qwen2']}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_SIGNS}[\r\n]*"
    rf"|[{_SPACES}]*[\r\n]+|[{_SPACES}]+",
}


class GPT2Graph(GraphTokenizer):
    """Runs the same sentencepiece model as `GPT2Tokenizer`."""

    def __init__(self, tokenizer: gpt2.GPT2Tokenizer) -> None:
        super().__init__(tokenizer)
        self._splitting = tokenizer.splitting
        self._separator_id = tokenizer.pieces.index(bytes([gpt2.SEPARATOR]))
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
        separator = bytes([gpt2.SEPARATOR])
        texts = self._normalized(texts)
        texts = tf.strings.regex_replace(
            texts, _LAST_SPACE[self._splitting], rb"\1" + separator + rb"\2"
        )
        texts = tf.strings.regex_replace(texts, _WORD[self._splitting], rb"\0" + separator)
        texts = tf.strings.unicode_transcode(texts, "ISO-8859-1", "UTF-8")
        ids = self._encoder.tokenize(tf.strings.regex_replace(texts, r"\x00", gpt2.NUL))
        return tf.ragged.boolean_mask(ids, ids != self._separator_id)

    def _normalized(self, texts: tf.Tensor) -> tf.Tensor:
        """Normalizes texts as `GPT2Tokenizer.normalize`."""
        if self._splitting == "gpt2":
            return texts
        # `nfc` keeps these characters too as and where they are.
        separator, too_new = bytes([gpt2.SEPARATOR]), character_class(ranges("not normalized"))
        marked = tf.strings.regex_replace(texts, f"([{too_new}])", separator + rb"\1" + separator)
        parts = tf.strings.split(marked, separator)
        normalized = tensorflow_text.normalize_utf8(parts.flat_values, "NFC")
        return tf.strings.reduce_join(parts.with_values(normalized), axis=1)
