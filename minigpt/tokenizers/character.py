"""The character tokenizer: one token for each Unicode code point."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.grouping import checked
from minigpt.tokenizers.tokenizer_file import setting
from minigpt.tokenizers.unicode_tables import lower

if TYPE_CHECKING:
    from minigpt.tokenizers.graph.character import CharacterGraph

SPECIAL_TOKENS = 3  # padding, [UNK], <end>
CODE_POINTS = 0x110000


class CharacterTokenizer(Tokenizer):
    """A vocabulary of the most frequent characters. Every other character is `[UNK]`.

    Attributes:
      table: int32, the id of every code point; the last entry is for all larger code points.
    """

    kind: ClassVar[str] = "character"
    end_id = 2
    unknown_id = 1
    undrawable_ids = (0, 1)

    def __init__(self, characters: Sequence[str], lowercase: bool) -> None:
        """
        Args:
          characters: the characters of the ids from 3 on, one code point each, without duplicates.
          lowercase: whether text is lower-cased before encoding.
        Raises:
          ValueError: an entry is not a single code point or is a duplicate.
        """
        if any(len(c) != 1 for c in characters) or len(set(characters)) != len(characters):
            raise ValueError("a vocabulary entry is not a single character or is a duplicate")
        super().__init__([b""] * SPECIAL_TOKENS + [c.encode() for c in characters], lowercase)
        code_points = np.array([ord(c) for c in characters], np.int64)
        self.table = np.full(code_points.max(initial=-1) + 2, self.unknown_id, np.int32)
        self.table[code_points] = np.arange(SPECIAL_TOKENS, self.vocab_size)

    @classmethod
    def learn(cls, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Self:
        """Takes the most frequent characters. Ties are broken in favor of lower code points."""
        counts = np.zeros(CODE_POINTS, np.int64)
        for text in checked(texts):
            found = np.bincount(_code_points(text, lowercase))
            counts[: len(found)] += found
        ranked = np.argsort(-counts, kind="stable")[: vocab_size - SPECIAL_TOKENS]
        return cls([chr(c) for c in ranked[counts[ranked] > 0]], lowercase)

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        last = len(self.table) - 1
        return [self.table[np.minimum(_code_points(text, self.lowercase), last)] for text in texts]

    def _build_graph(self) -> "CharacterGraph":
        from minigpt.tokenizers.graph.character import CharacterGraph

        return CharacterGraph(self)

    def _settings(self) -> dict[str, Any]:
        return {"vocabulary": [character.decode() for character in self.pieces[SPECIAL_TOKENS:]]}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        return cls(setting(settings, "vocabulary", list[str]), settings["lowercase"])


def _code_points(text: str, lowercase: bool) -> np.ndarray:
    if lowercase:
        text = lower(text)
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
