"""One token a Unicode code point."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

from minigpt.tokenizers.base import GraphTokenizer, Tokenizer, in_groups, lower_strings, setting

SPECIAL_TOKENS = 3  # padding, [UNK], <end>
CODE_POINTS = 0x110000


class CharacterTokenizer(Tokenizer):
    """The most frequent characters by number; the rest is `[UNK]`."""

    kind: ClassVar[str] = "character"
    end_id = 2
    unknown_id = 1
    undrawable_ids = (0, 1)

    def __init__(self, characters: Sequence[str], lowercase: bool) -> None:
        """characters: those of the ids from 3 on, one code point each, none twice."""
        if any(len(c) != 1 for c in characters) or len(set(characters)) != len(characters):
            raise ValueError("a character of the vocabulary is not one, or there twice")
        super().__init__([b""] * SPECIAL_TOKENS + [c.encode() for c in characters], lowercase)
        code_points = np.array([ord(c) for c in characters], np.int64)
        # Code point → id. All code points that are too large share the last entry.
        self.table = np.full(code_points.max(initial=-1) + 2, self.unknown_id, np.int32)
        self.table[code_points] = np.arange(SPECIAL_TOKENS, self.vocab_size)

    @classmethod
    def learn(cls, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Self:
        """Takes the most frequent characters; of equally frequent ones, the lowest code point."""
        counts = np.zeros(CODE_POINTS, np.int64)
        for group in in_groups(texts):
            for text in lower_strings(group, lowercase):
                found = np.bincount(_code_points(text))
                counts[: len(found)] += found
        ranked = np.argsort(-counts, kind="stable")[: vocab_size - SPECIAL_TOKENS]
        return cls([chr(c) for c in ranked[counts[ranked] > 0]], lowercase)

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        last = len(self.table) - 1
        return [
            self.table[np.minimum(_code_points(text), last)]
            for text in lower_strings(texts, self.lowercase)
        ]

    def _build_graph(self) -> GraphTokenizer:
        return CharacterGraph(self)

    def _settings(self) -> dict[str, Any]:
        return {"vocabulary": [character.decode() for character in self.pieces[SPECIAL_TOKENS:]]}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        return cls(setting(settings, "vocabulary", list[str]), settings["lowercase"])


class CharacterGraph(GraphTokenizer):
    def __init__(self, tokenizer: CharacterTokenizer) -> None:
        super().__init__(tokenizer)
        self._table = tf.constant(tokenizer.table)

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        code_points = tf.strings.unicode_decode(texts, "UTF-8")
        last = tf.size(self._table) - 1
        return code_points.with_flat_values(
            tf.gather(self._table, tf.minimum(code_points.flat_values, last))
        )


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
