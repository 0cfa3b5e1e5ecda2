"""Byte-pair encoding: pieces learned by merging, again and again, the most frequent pair.

Sennrich, Haddow and Birch (2016), "Neural Machine Translation of Rare Words with Subword Units";
learned and run by sentencepiece: Kudo and Richardson (2018), "SentencePiece". Characters that are
too rare to be a piece fall apart into the bytes of their UTF-8, so nothing is lost.
"""

import hashlib
import io
import itertools
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import sentencepiece
import tensorflow as tf
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from minigpt.errors import UserError
from minigpt.tokenizers.base import (
    GraphTokenizer,
    Tokenizer,
    in_groups,
    lower_strings,
    read_file,
    write_file,
)

# sentencepiece writes a space as U+2581 and cannot tell it from one in the text. So a U+2581 of the
# text becomes an escape sequence, and so does the escape character itself (DLE, which is rare).
SPACE, ESCAPE = "\u2581", "\x10"
ESCAPED_ESCAPE, ESCAPED_SPACE = ESCAPE + "a", ESCAPE + "b"

BASE_SIZE = 258  # 256 bytes, <end>, and the unknown token that sentencepiece insists on
COVERAGE = 0.9999  # share of the text whose characters are pieces; the rest is spelled in bytes

# Pairs are counted inside a word: spaces and the letters, the digits or the other signs behind them
# (as GPT-2 does; Radford et al. 2019, section 2.2). Were "time," a piece, a prompt that ends with "time"
# would be unlike anything a model has read. Line breaks, tabs and NUL are tokens by themselves. U+2585
# is sentencepiece's mark for characters outside the vocabulary: it skips a sentence that holds one, as
# it does sentences of more than 4192 bytes, below which the limits keep every word.
_MARKS = "".join(c for c in map(chr, range(0x300, 0x10000)) if unicodedata.category(c)[0] == "M")
_LETTER = rf"(?:[^\W\d_]|[{_MARKS}])"  # A vowel sign of Hindi, say, belongs to its consonant.
_SIGN = rf"(?:[^\w \t\n\r\0\u2585{_MARKS}]|_)"
_WORD = re.compile(
    rf"'{_LETTER}{{1,2}}\b"
    rf"|[ ]{{0,255}}(?:{_LETTER}{{1,256}}|\d{{1,256}}|{_SIGN}{{1,256}})"
    r"|[ ]{1,255}"
)


class BytePairTokenizer(Tokenizer):
    """Byte-pair encoding of the user's own text (systems.md, S4)."""

    kind: ClassVar[str] = "byte_pair"
    end_id = 1
    unknown_id = None
    undrawable_ids = (0,)

    def __init__(self, model: bytes, lowercase: bool) -> None:
        """model: a serialised sentencepiece `ModelProto` with the settings of `learn`."""
        proto = ModelProto.FromString(model)
        super().__init__([_piece_bytes(piece) for piece in proto.pieces], lowercase)
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def learn(cls, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Self:
        """Merges until there are `vocab_size` pieces or no pair of frequent characters repeats.

        Of equally frequent pairs the shorter one is merged, then the first by code points.
        """
        words: Counter[str] = Counter()
        for group in in_groups(texts):
            for text in lower_strings(group, lowercase):
                words.update(_WORD.findall(_escape(text)))
        words = _with_frequent_characters(words, vocab_size - BASE_SIZE)
        return cls(_without_single_pairs(_train(words, vocab_size), words), lowercase)

    def vocabulary_and_merges(self) -> tuple[dict[str, int], list[tuple[str, str]]]:
        """Every piece with its id, and the merges as pairs, in their order.

        sentencepiece merges the neighbours whose joined text is the best piece, however it is split.
        Only one split of a piece ever comes up, the one that the merges before it make of the piece
        alone: at its turn nothing has crossed its ends, so inside it all went as if it stood alone.
        """
        pieces = ModelProto.FromString(self.model).pieces
        ids = {piece.piece: i for i, piece in enumerate(pieces)}
        learned = {piece.piece: i for i, piece in enumerate(pieces) if i >= BASE_SIZE}
        merges = []
        for text, i in learned.items():
            if len(text) > 1:
                first, second = _merged(text, learned, i)
                merges.append((first, second))
        return ids, merges

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        prepared = [_escape(text) for text in lower_strings(texts, self.lowercase)]
        return [np.array(ids, np.int32) for ids in self._processor.encode(prepared, num_threads=1)]

    def _restore(self, text: str) -> str:
        # Half an escape sequence at the end is like a cut character: the next id completes it.
        text = text.removesuffix(ESCAPE)
        return text.replace(ESCAPED_SPACE, SPACE).replace(ESCAPED_ESCAPE, ESCAPE)

    def _build_graph(self) -> GraphTokenizer:
        return BytePairGraph(self)

    def save(self, folder: Path) -> None:
        """Writes `sentencepiece.model` and `tokenizer.json`, which holds the hash of the former."""
        folder.mkdir(parents=True, exist_ok=True)
        write_file(_model_path(folder), self.model)
        super().save(folder)

    def _settings(self) -> dict[str, Any]:
        return {"sentencepiece_sha256": hashlib.sha256(self.model).hexdigest()}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        model = read_file(_model_path(folder))
        if hashlib.sha256(model).hexdigest() != settings["sentencepiece_sha256"]:
            raise UserError(
                f"{_model_path(folder)}: damaged, not the file tokenizer.json was saved with"
            )
        return cls(model, settings["lowercase"])


class BytePairGraph(GraphTokenizer):
    def __init__(self, tokenizer: BytePairTokenizer) -> None:
        # Here: a training does not wait for it, and `encode` does not need it.
        import tensorflow_text

        super().__init__(tokenizer)
        self._encoder = tensorflow_text.SentencepieceTokenizer(tokenizer.model, out_type=tf.int32)

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.regex_replace(texts, ESCAPE, ESCAPED_ESCAPE)
        return self._encoder.tokenize(tf.strings.regex_replace(texts, SPACE, ESCAPED_SPACE))

    def _restore(self, texts: tf.Tensor) -> tf.Tensor:
        texts = tf.strings.regex_replace(texts, ESCAPE + r"\z", "")
        texts = tf.strings.regex_replace(texts, ESCAPED_SPACE, SPACE)
        return tf.strings.regex_replace(texts, ESCAPED_ESCAPE, ESCAPE)


def _escape(text: str) -> str:
    return text.replace(ESCAPE, ESCAPED_ESCAPE).replace(SPACE, ESCAPED_SPACE)


def _piece_bytes(piece: Any) -> bytes:
    if piece.type == piece.BYTE:
        return bytes([int(piece.piece[3:-1], 16)])  # "<0x41>"
    if piece.type == piece.NORMAL:
        return piece.piece.replace(SPACE, " ").encode()
    return b""


def _with_frequent_characters(words: Counter[str], room: int) -> Counter[str]:
    """Cuts the words at rare characters, for which the vocabulary has no room.

    Characters take half of `room` at most, so that merges are left. The space always keeps a piece:
    sentencepiece would spell it with the bytes of U+2581.
    """
    counts: Counter[str] = Counter({" ": 1})
    for word, count in words.items():
        for character in word:
            counts[character] += count
    total, covered, kept = counts.total(), 0, {" "}
    for character in sorted(counts, key=lambda character: (-counts[character], character)):
        if len(kept) >= max(1, room // 2) or covered >= COVERAGE * total:
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
    """A serialised sentencepiece model, with more merges than S4 wants where the text is short."""
    # The space's own count of one hardly counts, and it lets an empty text train.
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
    """Takes back the last merges, as far as they were of pairs that occur once or not at all.

    sentencepiece goes on merging until the vocabulary is full. No merge that stays builds on one
    that is taken back, so what stays is what stopping in time would have given.
    """
    proto = ModelProto.FromString(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    counts: Counter[int] = Counter()
    texts = list(words)
    for text, ids in zip(texts, processor.encode(texts, num_threads=os.cpu_count()), strict=True):
        for i in ids:
            counts[i] += words[text]

    # Merges stand in their order behind the bytes, the single characters behind the merges.
    ids_of = {piece.piece: i for i, piece in enumerate(proto.pieces) if i >= BASE_SIZE}
    end = BASE_SIZE + sum(len(piece) > 1 for piece in ids_of)
    last = end
    while last > BASE_SIZE and counts[last - 1] < 2:
        last -= 1
        # Where it stood, the symbols it was merged from stand again.
        for symbol in _merged(proto.pieces[last].piece, ids_of, last):
            counts[ids_of[symbol]] += counts[last]
    del proto.pieces[last:end]
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString(deterministic=True)


def _merged(text: str, ids_of: dict[str, int], end: int) -> list[str]:
    """The symbols of `text` after all merges that come before the id `end`."""
    symbols = list(text)
    while True:
        pairs = [
            (ids_of.get(a + b, end), i) for i, (a, b) in enumerate(itertools.pairwise(symbols))
        ]
        merge, i = min(pairs, default=(end, 0))
        if merge >= end:
            return symbols
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


def _model_path(folder: Path) -> Path:
    return folder / "sentencepiece.model"
