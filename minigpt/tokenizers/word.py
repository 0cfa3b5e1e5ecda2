"""Whole words and punctuation marks, the most frequent ones by number; the rest is `[UNK]`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

from minigpt.tokenizers.base import GraphTokenizer, Tokenizer, in_groups, lower, setting

SPECIAL_TOKENS = 3  # padding, [UNK], <end>
# Not \s and [[:punct:]]: in RE2 those are ASCII only. \p{P} and \p{S} hold all of the latter.
WHITE_SPACE = r"[\t-\r\x1c-\x1f\x{85}\p{Z}]+"
SEPARATE = r"[\p{P}\p{S}]"


class WordTokenizer(Tokenizer):
    """The tokenizer of the Keras miniature GPT (systems.md, S1).

    Every punctuation mark and symbol is a word of its own. Decoding puts one space between all
    words, so the spacing of the original is lost.
    """

    kind: ClassVar[str] = "word"
    separator: ClassVar[bytes] = b" "
    end_id = 2
    unknown_id = 1
    undrawable_ids = (0, 1)

    def __init__(self, words: Sequence[bytes], lowercase: bool) -> None:
        """words: those of the ids from 3 on; none empty, none twice."""
        if not all(words) or len(set(words)) != len(words):
            raise ValueError("a word of the vocabulary is empty or there twice")
        super().__init__([b""] * SPECIAL_TOKENS + list(words), lowercase)
        self.lossless = False

    @classmethod
    def learn(cls, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Self:
        """Takes the most frequent words; of equally frequent ones, the first by code points."""
        counts: Counter[bytes] = Counter()
        for group in in_groups(texts):
            words = split_words(lower(tf.constant(group, tf.string), lowercase))
            counts.update(words.flat_values.numpy().tolist())
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(ranked[: vocab_size - SPECIAL_TOKENS], lowercase)

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        ids = self.graph().encode(tf.constant(texts, tf.string))
        return np.split(ids.flat_values.numpy(), ids.row_splits.numpy()[1:-1])

    def _build_graph(self) -> GraphTokenizer:
        return WordGraph(self)

    def _settings(self) -> dict[str, Any]:
        return {"vocabulary": [word.decode() for word in self.pieces[SPECIAL_TOKENS:]]}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        words = setting(settings, "vocabulary", list[str])
        return cls([word.encode() for word in words], settings["lowercase"])


class WordGraph(GraphTokenizer):
    def __init__(self, tokenizer: WordTokenizer) -> None:
        super().__init__(tokenizer)
        # A table cannot be empty; the empty word never occurs in a text.
        words = [b"", *tokenizer.pieces[SPECIAL_TOKENS:]]
        ids = [tokenizer.unknown_id, *range(SPECIAL_TOKENS, tokenizer.vocab_size)]
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(words, ids, tf.string, tf.int32),
            default_value=tokenizer.unknown_id,
        )

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = split_words(texts)
        return words.with_flat_values(self._table.lookup(words.flat_values))


def split_words(texts: tf.Tensor) -> tf.RaggedTensor:
    """string[B] → ragged string[B, None]: split at whitespace, and around P and S characters."""
    texts = tf.strings.regex_replace(texts, WHITE_SPACE, " ")
    return tf.strings.split(tf.strings.regex_replace(texts, SEPARATE, r" \0 "))
