"""The character tokenizer: one token for each frequent Unicode code point, and bytes for the others."""

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigpt.errors import as_integer
from minigpt.tokenizers.base import Tokenizer, checked
from minigpt.tokenizers.unicode_tables import lower

SPECIAL_TOKENS = 2  # padding, <end>
# The bytes of the UTF-8 of characters that are not ASCII: The Unicode Standard, table 3-7. No text
# contains the bytes C0, C1 and F5 to FF.
NOT_ASCII = range(0x80, 0xC0), range(0xC2, 0xF5)


class CharacterTokenizer(Tokenizer):
    """A vocabulary of the most frequent characters. Every other character is encoded as its UTF-8 bytes.

    The ids are: padding, `<end>`, bytes, characters. Only bytes that can be needed have a token: an
    ASCII character of the vocabulary does not occur as a byte. So the vocabulary of an ASCII text has 245
    entries, however many characters it has.

    Attributes:
      table: int32, the id of every code point, -1 for characters that are encoded as bytes; the last
        entry is for all larger code points.
      byte_table: int32[256], the id of every byte, -1 for bytes without a token.
      bytes_in_text: the bytes that occurred in the text that was learned from, sorted. The other bytes
        are untrained, and are never drawn.
    """

    kind: ClassVar[str] = "character"
    format: ClassVar[int] = 2
    end_id = 1
    unknown_id = None

    def __init__(self, characters: Sequence[str], bytes_in_text: bytes, lowercase: bool) -> None:
        """Takes the characters of the last ids, one code point each, without duplicates.

        `bytes_in_text` are bytes of characters in the training text that are not among them.
        """
        known = set(characters)
        needed = [byte for byte in range(0x80) if chr(byte) not in known]
        needed += itertools.chain(*NOT_ASCII)
        self.bytes_in_text = bytes(sorted(set(bytes_in_text)))
        first_character = SPECIAL_TOKENS + len(needed)
        self.byte_ids = tuple(range(SPECIAL_TOKENS, first_character))
        self.byte_table = np.full(256, -1, np.int32)
        self.byte_table[needed] = self.byte_ids
        points = np.array([ord(c) for c in characters], np.int64)
        self.table = np.full(points.max(initial=-1) + 2, -1, np.int32)
        self.table[points] = np.arange(first_character, first_character + len(points))
        untrained = set(needed) - set(bytes_in_text)
        self.never_sampled_ids = (0, *sorted(self.byte_table[list(untrained)].tolist()))
        pieces = [bytes([byte]) for byte in needed] + [c.encode() for c in characters]
        super().__init__([b""] * SPECIAL_TOKENS + pieces, lowercase)

    @classmethod
    def learn(cls, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Self:
        """Takes the most frequent characters. Ties are broken in favor of lower code points.

        Args:
          vocab_size: limit for the number of characters and special tokens. The byte tokens are not
            counted, because their number does not depend on the text.
        """
        size = as_integer("vocab_size", vocab_size, SPECIAL_TOKENS + 1) - SPECIAL_TOKENS
        counts = np.zeros(0x110000, np.int64)
        for text in checked(texts):
            occurring = np.bincount(code_points(lower(text) if lowercase else text))
            counts[: len(occurring)] += occurring
        ranked = np.argsort(-counts, kind="stable")
        found = [chr(c) for c in ranked[: np.count_nonzero(counts)]]
        return cls(found[:size], bytes(set("".join(found[size:]).encode())), lowercase)

    @property
    def characters(self) -> list[str]:
        """The characters that have a token, in the order of their ids."""
        return [piece.decode() for piece in self.text_pieces[SPECIAL_TOKENS + len(self.byte_ids) :]]

    def count_unknown(self, text: str) -> int:
        return int((self._ids(lower(text) if self.lowercase else text) < 0).sum())

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        return [self._encode_one(lower(text) if self.lowercase else text) for text in texts]

    def _encode_one(self, text: str) -> np.ndarray:
        ids = self._ids(text)
        if ids.min(initial=0) >= 0:
            return ids
        data = np.frombuffer(text.encode(), np.uint8)
        is_first = data & 0xC0 != 0x80
        # For every byte, the id of the character it belongs to.
        ids = ids[np.cumsum(is_first) - 1]
        is_byte = ids < 0
        return np.where(is_byte, self.byte_table[data], ids)[is_byte | is_first]

    def _ids(self, text: str) -> np.ndarray:
        """Returns the entries of the code points of a text in the table, int32[T]."""
        return self.table[np.minimum(code_points(text), len(self.table) - 1)]

    def _settings(self) -> dict[str, Any]:
        return {"vocabulary": self.characters, "bytes_in_text": self.bytes_in_text.hex()}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        bytes_in_text = bytes.fromhex(settings["bytes_in_text"])
        return cls(settings["vocabulary"], bytes_in_text, settings["lowercase"])


def code_points(text: str) -> np.ndarray:
    """Returns the code points of a text, uint32[T]."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
