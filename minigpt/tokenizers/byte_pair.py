"""The byte-pair tokenizer: pieces of words, learned by repeatedly merging the most frequent pair.

Sennrich, Haddow and Birch (2016), "Neural Machine Translation of Rare Words with Subword Units".
sentencepiece learns and encodes: Kudo and Richardson (2018), "SentencePiece". A character that is too
rare to be a piece is encoded as the bytes of its UTF-8, so encoding is lossless.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from minigpt.errors import as_integer
from minigpt.tokenizers.base import Tokenizer, read_checked_file
from minigpt.tokenizers.byte_pair_learning import BASE_SIZE, WORD, learn_model, merged
from minigpt.tokenizers.grouping import checked
from minigpt.tokenizers.unicode_tables import lower
from minigpt.tokenizers.vocabulary import SPACE, escaped, unescaped

if TYPE_CHECKING:
    from minigpt.tokenizers.graph.learned import BytePairGraph

MODEL_FILE = "sentencepiece.model"


class BytePairTokenizer(Tokenizer):
    """Byte-pair encoding learned from the user's text (docs/systems.md, S4).

    Attributes:
      model: a serialized sentencepiece `ModelProto`.
    """

    kind: ClassVar[str] = "byte_pair"
    max_learn_bytes: ClassVar[int] = 16_000_000  # sentencepiece keeps the words in memory
    end_id = 1
    unknown_id = None
    never_sampled_ids = (0,)

    def __init__(self, model: bytes, lowercase: bool) -> None:
        """
        Args:
          model: a serialized sentencepiece `ModelProto` with the settings of `learn_model`.
          lowercase: whether text is lower-cased before encoding.
        """
        proto = ModelProto.FromString(model)
        super().__init__([_piece_bytes(piece) for piece in proto.pieces], lowercase)
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def learn(cls, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Self:
        """Merges until there are `vocab_size` pieces or no pair of frequent characters repeats.

        Among equally frequent pairs, the shorter one is merged first, then the first by code points.
        """
        vocab_size = as_integer("vocab_size", vocab_size, BASE_SIZE + 1)
        words: Counter[str] = Counter()
        for text in checked(texts):
            words.update(WORD.findall(_prepare(text, lowercase)))
        return cls(learn_model(words, vocab_size), lowercase)

    def vocabulary_and_merges(self) -> tuple[dict[str, int], list[tuple[str, str]]]:
        """Returns the id of every piece, and the merges as pairs in their order.

        sentencepiece merges the neighbors whose joined text is the best piece, however the text is
        split. Only one split of a piece occurs: the one that the earlier merges make of the piece
        alone. When a piece is made, no earlier merge has crossed its ends, so the merges inside it are
        those of the piece alone.
        """
        pieces = ModelProto.FromString(self.model).pieces
        ids = {piece.piece: i for i, piece in enumerate(pieces)}
        learned = {piece.piece: i for i, piece in enumerate(pieces) if i >= BASE_SIZE}
        merges = []
        for text, i in learned.items():
            if len(text) > 1:
                first, second = merged(text, learned, i)
                merges.append((first, second))
        return ids, merges

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        prepared = [_prepare(text, self.lowercase) for text in texts]
        return [np.array(ids, np.int32) for ids in self._processor.encode(prepared, num_threads=1)]

    def _restore(self, text: str) -> str:
        return unescaped(text)

    def _build_graph(self) -> "BytePairGraph":
        from minigpt.tokenizers.graph.learned import BytePairGraph

        return BytePairGraph(self)

    def _files(self) -> dict[str, bytes]:
        return {MODEL_FILE: self.model}

    def _settings(self) -> dict[str, Any]:
        return {"sentencepiece_sha256": hashlib.sha256(self.model).hexdigest()}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        model = read_checked_file(folder / MODEL_FILE, settings["sentencepiece_sha256"])
        return cls(model, settings["lowercase"])


def _prepare(text: str, lowercase: bool) -> str:
    """Lower-cases the text if wanted, and escapes U+2581."""
    return escaped(lower(text) if lowercase else text)


def _piece_bytes(piece: Any) -> bytes:
    if piece.type == piece.BYTE:
        return bytes([int(piece.piece[3:-1], 16)])  # "<0x41>"
    if piece.type == piece.NORMAL:
        return piece.piece.replace(SPACE, " ").encode()
    return b""
