"""The character tokenizer of minigpt 0.1, whose vocabulary is closed: other characters are `[UNK]`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.code_points import characters_by_frequency, code_points, id_table, look_up
from minigpt.tokenizers.tokenizer_file import setting

if TYPE_CHECKING:
    from minigpt.tokenizers.graph.closed_character import ClosedCharacterGraph

SPECIAL_TOKENS = 3  # padding, [UNK], <end>


class ClosedCharacterTokenizer(Tokenizer):
    """A vocabulary of the most frequent characters. Every other character is `[UNK]`.

    Runs that were trained with it keep it. New runs use `CharacterTokenizer`.

    Attributes:
      table: int32, the id of every code point; the last entry is for all larger code points.
    """

    kind: ClassVar[str] = "character"
    end_id = 2
    unknown_id = 1
    never_sampled_ids = (0, 1)

    def __init__(self, characters: Sequence[str], lowercase: bool) -> None:
        """
        Args:
          characters: the characters of the ids from 3 on, one code point each, without duplicates.
          lowercase: whether text is lower-cased before encoding.
        Raises:
          ValueError: an entry is not a single code point or is a duplicate.
        """
        self.table = id_table(characters, SPECIAL_TOKENS, other=self.unknown_id)
        super().__init__([b""] * SPECIAL_TOKENS + [c.encode() for c in characters], lowercase)

    @classmethod
    def learn(cls, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Self:
        """Takes the most frequent characters. Ties are broken in favor of lower code points."""
        found = characters_by_frequency(texts, lowercase)
        return cls(found[: vocab_size - SPECIAL_TOKENS], lowercase)

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        return [look_up(self.table, code_points(text, self.lowercase)) for text in texts]

    def _build_graph(self) -> "ClosedCharacterGraph":
        from minigpt.tokenizers.graph.closed_character import ClosedCharacterGraph

        return ClosedCharacterGraph(self)

    def _settings(self) -> dict[str, Any]:
        return {"vocabulary": [character.decode() for character in self.pieces[SPECIAL_TOKENS:]]}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        return cls(setting(settings, "vocabulary", list[str]), settings["lowercase"])
