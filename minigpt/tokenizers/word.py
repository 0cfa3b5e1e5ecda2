"""The word tokenizer: one token for each word and each punctuation mark."""

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigpt.errors import as_integer
from minigpt.tokenizers.base import Tokenizer, checked, encode_chunks
from minigpt.tokenizers.unicode_tables import lower, ranges

SPECIAL_TOKENS = 3  # padding, [UNK], <end>
# For RE2, where \s and [[:punct:]] are ASCII only. Python's str.split uses the same white space.
WHITE_SPACE = r"[\t-\r\x1c-\x1f\x{85}\p{Z}]+"
SEPARATE = r"[\p{P}\p{S}]"


class WordTokenizer(Tokenizer):
    """The tokenizer of the Keras miniature GPT (docs/systems.md, S1).

    A vocabulary of the most frequent words; every other word is `[UNK]`. Every punctuation mark and
    symbol is a separate word. Decoding joins the words with single spaces.
    """

    kind: ClassVar[str] = "word"
    separator: ClassVar[bytes] = b" "
    end_id = 2
    unknown_id = 1

    def __init__(self, words: Sequence[bytes], lowercase: bool) -> None:
        """Takes the words of the ids from 3 on, in UTF-8, without duplicates."""
        super().__init__([b""] * SPECIAL_TOKENS + list(words), lowercase)
        self.lossless = False
        ids = np.arange(self.vocab_size, dtype=np.int32)
        known = zip(words, ids[SPECIAL_TOKENS:], strict=True)
        self._id_bytes = {word.decode(): i.tobytes() for word, i in known}
        self._unknown_bytes = ids[self.unknown_id].tobytes()

    @classmethod
    def learn(cls, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Self:
        """Takes the most frequent words. Ties are broken by the order of code points."""
        size = as_integer("vocab_size", vocab_size, SPECIAL_TOKENS + 1) - SPECIAL_TOKENS
        chunks: Counter[str] = Counter()
        for text in checked(texts):
            chunks.update(text.split())
        words: Counter[str] = Counter()
        for chunk, count in chunks.items():
            for word in split_chunk(chunk, lowercase):
                words[word] += count
        ranked = sorted(words, key=lambda word: (-words[word], word))
        return cls([word.encode() for word in ranked[:size]], lowercase)

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        # No word and no rule of lower-casing extends across white space.
        return encode_chunks(texts, str.split, self._encode_unspaced)

    def _encode_unspaced(self, chunks: list[str]) -> list[bytes]:
        known, unknown = self._id_bytes, self._unknown_bytes
        return [
            b"".join([known.get(word, unknown) for word in split_chunk(chunk, self.lowercase)])
            for chunk in chunks
        ]

    def _settings(self) -> dict[str, Any]:
        return {"vocabulary": [word.decode() for word in self.text_pieces[SPECIAL_TOKENS:]]}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        return cls([word.encode() for word in settings["vocabulary"]], settings["lowercase"])


def split_chunk(chunk: str, lowercase: bool) -> list[str]:
    """Splits text without white space into words and single characters of the categories P and S."""
    if lowercase:
        chunk = lower(chunk)
    return [chunk] if chunk.isalpha() else chunk.translate(_spaced_marks()).split()


@functools.cache
def _spaced_marks() -> dict[int, str]:
    return {c: f" {chr(c)} " for first, last in ranges("P", "S") for c in range(first, last + 1)}
