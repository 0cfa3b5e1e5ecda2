"""GPT-2's tokenizer and its added tokens in TensorFlow operations."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text

from minigpt.environment import hide_tensorflow_log
from minigpt.tokenizers.gpt2 import NUL, SEPARATOR, GPT2Tokenizer
from minigpt.tokenizers.graph.graph_tokenizer import GraphTokenizer
from minigpt.tokenizers.splitting import CONTRACTIONS, WHITE_SPACE, AddedToken, alternatives
from minigpt.tokenizers.unicode_tables import ranges

# A byte that never occurs in UTF-8, on both sides of a token.
_MARK = bytes([0xFE])


def character_class(code_points: Sequence[tuple[int, int]]) -> str:
    """Returns ranges of code points in the terms of RE2, to be written between brackets."""
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in code_points)


class GraphAddedTokens(tf.Module):
    """Finds the same tokens as `AddedTokens`.

    Args:
      tokens: the tokens.
      normalize: normalizes text, in Python.
      normalized: the same in TensorFlow: string[N] → string[N].
    """

    def __init__(
        self,
        tokens: Sequence[AddedToken],
        normalize: Callable[[str], str],
        normalized: Callable[[tf.Tensor], tf.Tensor],
    ) -> None:
        super().__init__()
        self._as_they_are = _Search({t.content: t for t in tokens if not t.normalized})
        self._in_normalized = _Search({normalize(t.content): t for t in tokens if t.normalized})
        self._normalized = normalized

    def ids(
        self, texts: tf.Tensor, encode: Callable[[tf.Tensor], tf.RaggedTensor]
    ) -> tf.RaggedTensor:
        """Encodes texts; `encode` encodes the parts between added tokens.

        Args:
          texts: string[N].
          encode: string[M] → ragged int32[M, None].
        Returns:
          ragged int32[N, None].
        """
        parts, ids = self._as_they_are.split(texts)
        found = ids.flat_values
        # What is a token already is an empty text for the second search.
        again, more = self._in_normalized.split(self._normalized(parts.flat_values))
        found = tf.maximum(tf.repeat(found, again.row_lengths()), more.flat_values)
        is_token = found >= 0
        added = tf.RaggedTensor.from_row_lengths(found[is_token], tf.cast(is_token, tf.int64))
        by_part = tf.concat([encode(again.flat_values), added], axis=1)
        by_text = by_part.with_row_splits_dtype(tf.int64)
        for splits in (again.row_splits, parts.row_splits):
            by_text = tf.RaggedTensor.from_row_splits(by_text, splits).merge_dims(1, 2)
        return by_text


class _Search(tf.Module):
    """Finds tokens that have the same value of `normalized`.

    Args:
      tokens: text to search for → token.
    """

    def __init__(self, tokens: dict[str, AddedToken]) -> None:
        super().__init__()
        self._pattern = f"({alternatives(tokens)})"
        self._tokens = list(tokens.values())
        if tokens:
            self._numbers = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(list(tokens), tf.range(len(tokens))), -1
            )

    def split(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Splits texts at the tokens.

        Args:
          texts: string[N].
        Returns:
          ragged string[N, None]: texts and tokens alternately, in which the tokens are empty; and
          ragged int32[N, None]: their ids, -1 for texts.
        """
        if not self._tokens:
            parts = tf.RaggedTensor.from_row_lengths(texts, tf.ones_like(texts, tf.int64))
            return parts, parts.with_values(tf.fill(tf.shape(texts), -1))
        marked = tf.strings.regex_replace(texts, self._pattern, _MARK + rb"\1" + _MARK)
        parts = tf.strings.split(marked, _MARK)
        numbers = parts.with_values(tf.where(_is_odd(parts), self._numbers[parts.flat_values], -1))
        if any(token.single_word for token in self._tokens):
            parts, numbers = self._without_parts_of_words(parts, numbers)
        texts, is_token = parts.flat_values, _is_odd(parts)
        spaces = f"[{character_class(WHITE_SPACE)}]+"
        for flag, offset, pattern in (
            ("lstrip", 1, spaces + r"\z"),
            ("rstrip", -1, r"\A" + spaces),
        ):
            strips = self._has(flag, _shifted(numbers.flat_values, offset, -1)) & ~is_token
            texts = tf.where(strips, tf.strings.regex_replace(texts, pattern, ""), texts)
        ids = tf.constant([token.id for token in self._tokens])
        numbers_flat = numbers.flat_values
        found = tf.where(is_token, tf.gather(ids, tf.maximum(numbers_flat, 0)), -1)
        return parts.with_values(tf.where(is_token, "", texts)), parts.with_values(found)

    def _has(self, flag: str, numbers: tf.Tensor) -> tf.Tensor:
        flags = tf.constant([getattr(token, flag) for token in self._tokens])
        return (numbers >= 0) & tf.gather(flags, tf.maximum(numbers, 0))

    def _without_parts_of_words(
        self, parts: tf.RaggedTensor, numbers: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Joins tokens with `single_word` that are part of a word with the adjacent texts."""
        texts, word = parts.flat_values, f"[{character_class(ranges('word'))}]"
        rows = parts.value_rowids()

        def neighbor(offset: int) -> tf.Tensor:
            same_row = _shifted(rows, offset, -1) == rows
            return tf.where(same_row, _shifted(texts, offset, ""), "")

        # If the text next to a token is empty, the part beyond it is a token.
        before = tf.strings.join([neighbor(-2), neighbor(-1)])
        after = tf.strings.join([neighbor(1), neighbor(2)])
        in_word = tf.strings.regex_full_match(before, f"(?s).*{word}")
        in_word |= tf.strings.regex_full_match(after, f"(?s){word}.*")
        flat = numbers.flat_values
        is_kept = (flat >= 0) & ~(self._has("single_word", flat) & in_word)
        kept = tf.cast(parts.with_values(is_kept), tf.int64)
        lengths = 2 * tf.reduce_sum(kept, axis=1) + 1
        starts = tf.repeat(tf.cumsum(lengths, exclusive=True), parts.row_lengths())
        # The text or token that each part belongs to.
        counts = kept.flat_values
        earlier = tf.cumsum(counts, exclusive=True)
        first = tf.gather(earlier, tf.repeat(parts.row_starts(), parts.row_lengths()))
        place = starts + 2 * (earlier - first) + counts
        total = tf.reduce_sum(lengths)
        joined = tf.strings.unsorted_segment_join(texts, place, total)
        kept_numbers = tf.math.unsorted_segment_max(tf.where(is_kept, flat, -1), place, total)
        rows_of = tf.RaggedTensor.from_row_lengths(joined, lengths)
        return rows_of, rows_of.with_values(kept_numbers)


def _is_odd(parts: tf.RaggedTensor) -> tf.Tensor:
    """Returns bool[M]: whether a part has an odd place in its row."""
    starts = tf.repeat(parts.row_starts(), parts.row_lengths())
    return (tf.range(tf.size(starts, tf.int64)) - starts) % 2 == 1


def _shifted(values: tf.Tensor, offset: int, filling: Any) -> tf.Tensor:
    """Returns for each place what is `offset` places later."""
    padding = tf.fill([abs(offset)], tf.cast(filling, values.dtype))
    if offset < 0:
        return tf.concat([padding, values], 0)[:offset]
    return tf.concat([values, padding], 0)[offset:]


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
        """Normalizes texts as `GPT2Tokenizer.normalize`."""
        if self._splitting == "gpt2":
            return texts
        # `nfc` keeps these characters too as and where they are.
        separator, too_new = bytes([SEPARATOR]), character_class(ranges("not normalized"))
        marked = tf.strings.regex_replace(texts, f"([{too_new}])", separator + rb"\1" + separator)
        parts = tf.strings.split(marked, separator)
        normalized = tensorflow_text.normalize_utf8(parts.flat_values, "NFC")
        return tf.strings.reduce_join(parts.with_values(normalized), axis=1)
