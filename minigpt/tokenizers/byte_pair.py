"""The byte-pair tokenizer: pieces of words, learned by repeatedly merging the most frequent pair.

Sennrich, Haddow and Birch (2016), "Neural Machine Translation of Rare Words with Subword Units".
sentencepiece learns and encodes: Kudo and Richardson (2018), "SentencePiece". A character that is too
rare to be a piece is encoded as the bytes of its UTF-8, so encoding is lossless.
"""

import hashlib
import io
import itertools
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from minigpt.errors import as_integer
from minigpt.tokenizers.base import Tokenizer, checked, read_checked_file
from minigpt.tokenizers.unicode_tables import lower
from minigpt.tokenizers.vocabulary import SPACE, escaped, unescaped

BASE_SIZE = 258  # 256 bytes, <end>, and the unknown token that sentencepiece requires
COVERAGE = (
    0.9999  # share of the text whose characters become pieces; the others are encoded as bytes
)

# Pairs are counted inside a word: spaces, then letters, digits or other signs (as in GPT-2; Radford et al.
# 2019, section 2.2). If "time," were a piece, a prompt that ends with "time" would differ from all training
# text. Line breaks, tabs and NUL are separate tokens. U+2585 is sentencepiece's sign for
# unknown characters: it skips sentences that contain it, and sentences of more than 4192 bytes. The limits
# keep every word shorter.
_MARKS = "".join(c for c in map(chr, range(0x300, 0x10000)) if unicodedata.category(c)[0] == "M")
_LETTER = rf"(?:[^\W\d_]|[{_MARKS}])"  # A vowel sign, as in Hindi, belongs to its consonant.
_SIGN = rf"(?:[^\w \t\n\r\0\u2585{_MARKS}]|_)"
WORD = re.compile(
    rf"'{_LETTER}{{1,2}}\b"
    rf"|[ ]{{0,255}}(?:{_LETTER}{{1,256}}|\d{{1,256}}|{_SIGN}{{1,256}})"
    r"|[ ]{1,255}"
)


def learn_model(words: Counter[str], vocab_size: int) -> bytes:
    """Learns merges from the words of a text.

    Args:
      words: the number of occurrences of every match of WORD.
      vocab_size: the largest number of pieces; at least BASE_SIZE + 1.
    Returns:
      A serialized sentencepiece `ModelProto`: unknown, <end>, 256 bytes, merges in order, characters.
    """
    words = _cut_at_rare_characters(words, vocab_size - BASE_SIZE)
    return _without_single_pairs(_train(words, vocab_size), words)


def _cut_at_rare_characters(words: Counter[str], capacity: int) -> Counter[str]:
    """Cuts the words at characters that do not become pieces.

    Characters take at most half of `capacity`, so that merges fit too. The space always becomes a piece:
    otherwise sentencepiece would encode it as the bytes of U+2581.
    """
    counts: Counter[str] = Counter({" ": 1})
    for word, count in words.items():
        for character in word:
            counts[character] += count
    total, covered, kept = counts.total(), 0, {" "}
    for character in sorted(counts, key=lambda character: (-counts[character], character)):
        if len(kept) >= max(1, capacity // 2) or covered >= COVERAGE * total:
            break
        kept.add(character)
        covered += counts[character]
    if len(kept) == len(counts):
        return words
    parts: Counter[str] = Counter()
    known = re.compile("[" + re.escape("".join(sorted(kept))) + "]+")
    for word, count in words.items():
        for part in known.findall(word):
            parts[part] += count
    return parts


def _train(words: Counter[str], vocab_size: int) -> bytes:
    """Trains a sentencepiece model. In a short text, it also merges pairs that do not repeat."""
    # One additional space does not change the order, and makes an empty text trainable.
    lines = (f"{word}\t{count}" for word, count in (words + Counter({" ": 1})).items())
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines,
        input_format="tsv",
        model_writer=writer,
        model_type="bpe",
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        allow_whitespace_only_pieces=True,
        # The most frequent pair is merged, whatever its characters are.
        split_by_unicode_script=False,
        split_by_number=False,
        max_sentencepiece_length=512,
        unk_id=0,
        eos_id=1,
        eos_piece="<end>",
        bos_id=-1,
        pad_id=-1,
        minloglevel=2,
    )
    return writer.getvalue()


def _without_single_pairs(model: bytes, words: Counter[str]) -> bytes:
    """Removes the last merges if their pairs occur at most once.

    sentencepiece merges until the vocabulary is full. A merge that is kept never builds on one that is
    removed, so the result is the same as if training had stopped earlier.
    """
    proto = ModelProto.FromString(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    counts: Counter[int] = Counter()
    texts = list(words)
    for text, ids in zip(texts, processor.encode(texts, num_threads=os.cpu_count()), strict=True):
        for i in ids:
            counts[i] += words[text]

    # The ids are: bytes, merges in their order, single characters.
    ids_of = {piece.piece: i for i, piece in enumerate(proto.pieces) if i >= BASE_SIZE}
    end = BASE_SIZE + sum(len(piece) > 1 for piece in ids_of)
    last = end
    while last > BASE_SIZE and counts[last - 1] < 2:
        last -= 1
        # The two symbols that were merged occur again.
        for symbol in merged(proto.pieces[last].piece, ids_of, last):
            counts[ids_of[symbol]] += counts[last]
    del proto.pieces[last:end]
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString(deterministic=True)


def merged(text: str, ids_of: dict[str, int], end: int) -> list[str]:
    """Returns the symbols of `text` after all merges whose ids are below `end`."""
    symbols = list(text)
    while True:
        pairs = [
            (ids_of.get(a + b, end), i) for i, (a, b) in enumerate(itertools.pairwise(symbols))
        ]
        merge, i = min(pairs, default=(end, 0))
        if merge >= end:
            return symbols
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


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

    def __init__(self, model: bytes, lowercase: bool) -> None:
        """Takes a model with the settings of `learn_model`."""
        proto = ModelProto.FromString(model)
        super().__init__([piece_bytes(piece) for piece in proto.pieces], lowercase)
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

    @classmethod
    def from_pieces(cls, pieces: Sequence[bytes], ranks: np.ndarray, lowercase: bool) -> Self:
        """Returns the tokenizer with the pieces and the ranks of a portable file.

        Raises:
          ValueError: the first pieces are not those of every byte-pair tokenizer.
        """
        proto = ModelProto.FromString(_train(Counter(), BASE_SIZE + 1))
        del proto.pieces[BASE_SIZE:]
        if [piece_bytes(piece) for piece in proto.pieces] != list(pieces[:BASE_SIZE]):
            raise ValueError(f"the first {BASE_SIZE} pieces are not <unk>, <end> and the bytes")
        for piece, rank in zip(pieces[BASE_SIZE:], ranks[BASE_SIZE:].tolist(), strict=False):
            proto.pieces.add(piece=piece.decode().replace(" ", SPACE), score=-rank)
        proto.trainer_spec.vocab_size = len(proto.pieces)
        return cls(proto.SerializeToString(deterministic=True), lowercase)

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


def piece_bytes(piece: Any) -> bytes:
    """Returns the bytes that a piece of a `ModelProto` adds to decoded text."""
    if piece.type == piece.BYTE:
        return bytes([int(piece.piece[3:-1], 16)])  # "<0x41>"
    if piece.type in (piece.NORMAL, piece.USER_DEFINED):
        return piece.piece.replace(SPACE, " ").encode()
    return b""
