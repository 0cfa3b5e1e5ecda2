"""The byte-level byte-pair encoding of GPT-2, from its published files `encoder.json` and `vocab.bpe`.

Radford et al. (2019), "Language Models are Unsupervised Multitask Learners", section 2.2. The text is
cut into words by the pattern of the published encoder, then pairs of neighbours inside a word's UTF-8
bytes are merged, those of the first merge in the list first.

sentencepiece does the merging, here and in the graph alike, as it does for `byte_pair`: no second
library, no mutable table of words. It reads Latin-1 text, in which a byte is a character.
"""

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import tensorflow as tf
from pydantic import Field
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from minigpt.environment import hide_tensorflow_log
from minigpt.errors import UserError
from minigpt.tokenizers.base import (
    GraphTokenizer,
    Tokenizer,
    read_file,
    setting,
    write_file,
)

END_TOKEN = "<|endoftext|>"
ENCODER_FILE, MERGES_FILE = "encoder.json", "vocab.bpe"
# A vocabulary may come from a stranger, and every id up to its largest takes memory.
MOST_IDS = 2**24
Id = Annotated[int, Field(ge=0, lt=MOST_IDS)]

# The published pattern is 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ .
# RE2 knows no (?!\S), and its \s is ASCII alone. What (?!\S) does is to leave the last white space of
# a run to the word behind it: so a first pass cuts there, and in the second \s+ is enough.
_SPACES = r"\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_LAST_SPACE = rf"([{_SPACES}])([{_SPACES}][^{_SPACES}])"
_WORD = (
    r"'(?:[stmd]|re|ve|ll)"
    r"| ?\p{L}+"
    r"| ?\p{N}+"
    rf"| ?[^{_SPACES}\p{{L}}\p{{N}}]+"
    rf"|[{_SPACES}]+"
)
# A byte that UTF-8 has no use for: no class of characters holds it, and no text does.
_CUT = 0xFF
# sentencepiece takes no NUL for a character. Behind Latin-1's 256 there is room for another.
_NUL = "\u0100"
_NAMELESS = "\u0101"


class GPT2Tokenizer(Tokenizer):
    """GPT-2's own vocabulary, or another one in its two files.

    Ids that no text encodes to (special tokens, and what is left up to `size`) stand for nothing and
    are never drawn, but for the end token, which ends a text.
    """

    kind: ClassVar[str] = "gpt2"
    cut_behind: ClassVar[re.Pattern[str]] = re.compile(r"\S(?=[ \n])")
    unknown_id = None

    def __init__(
        self,
        encoder: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        special: Mapping[str, int],
        end_id: int,
        size: int | None = None,
    ) -> None:
        """Takes a vocabulary as it is; `from_files` checks one.

        Args:
          encoder: token → id, as in encoder.json, special tokens left out.
          merges: pairs of tokens, the first to be merged first.
          special: the other tokens → ids.
          end_id: the id of one of them.
          size: the number of ids, where there are more than tokens.
        """
        self.encoder = dict(encoder)
        self.merges = list(merges)
        self.special = dict(special)
        size = max(size or 0, 1 + max([*encoder.values(), *special.values()]))
        pieces = [b""] * size
        for token, i in encoder.items():
            pieces[i] = token_bytes(token)
        super().__init__(pieces, lowercase=False)
        self.end_id = end_id
        self.undrawable_ids = tuple(
            i for i, piece in enumerate(pieces) if not piece and i != end_id
        )

    @classmethod
    def from_files(
        cls,
        encoder: bytes,
        merges: bytes,
        names: tuple[str, str] = (ENCODER_FILE, MERGES_FILE),
        special: Mapping[str, int] | None = None,
        end_id: int | None = None,
        size: int | None = None,
    ) -> Self:
        """Reads and checks the two published files, or two like them.

        Args:
          encoder: JSON, token → id.
          merges: a line with the version, then two tokens a line.
          names: of the two, for messages.
          special: special tokens → ids; those in `encoder` need not be named if there is but one.
          end_id: the id of the end token; that of `<|endoftext|>` if None.
          size: the number of ids, where there are more than tokens.
        Raises:
          UserError: one of them is damaged, or they do not fit each other.
        """
        tokens, pairs = _read_encoder(encoder, names[0]), _read_merges(merges, names[1])
        return cls.from_tables(tokens, pairs, names, special, end_id, size)

    @classmethod
    def from_tables(
        cls,
        tokens: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        names: tuple[str, str],
        special: Mapping[str, int] | None = None,
        end_id: int | None = None,
        size: int | None = None,
    ) -> Self:
        """`from_files` for files that are read already; `tokens` may hold special ones too."""
        special = dict(special or {})
        if END_TOKEN in tokens:
            special.setdefault(END_TOKEN, tokens[END_TOKEN])
        encoder = {token: i for token, i in tokens.items() if token not in special}
        _check_fit(encoder, merges, names)
        if end_id is None:
            end_id = special.get(END_TOKEN)
            if end_id is None:
                raise UserError(f"{names[0]}: holds no end token; should hold {END_TOKEN}")
        if end_id not in special.values():
            raise UserError(f"{names[0]}: the end token's id {end_id} is that of no special token")
        clash = sorted(set(special.values()) & set(encoder.values()))
        if clash or len(set(special.values())) < len(special):
            raise UserError(f"{names[0]}: two tokens have the id {clash[0] if clash else end_id}")
        largest = max([*encoder.values(), *special.values()])
        if size is not None and largest >= size:
            raise UserError(
                f"{names[0]}: holds the id {largest}; should be below the vocabulary size, {size}"
            )
        return cls(encoder, merges, special, end_id, size)

    @classmethod
    def learn(cls, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Self:
        """Not there: this vocabulary is published, not learned."""
        raise UserError(
            "tokenizer.kind = 'gpt2': is read from published files, not learned from text; "
            "to learn one, tokenizer.kind should be 'byte_pair'"
        )

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        ids = self.graph().encode(tf.constant(texts, tf.string))
        return np.split(ids.flat_values.numpy(), ids.row_splits.numpy()[1:-1])

    def encode_many(self, texts: Sequence[str]) -> list[np.ndarray]:
        self.graph()  # Made before the cores share it.
        return super().encode_many(texts)

    def _build_graph(self) -> GraphTokenizer:
        with hide_tensorflow_log():
            return GPT2Graph(self)

    def save(self, folder: Path) -> None:
        """Writes `encoder.json`, `vocab.bpe`, and `tokenizer.json`, which holds their hashes."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self._files().items():
            write_file(folder / name, data)
        super().save(folder)

    def _files(self) -> dict[str, bytes]:
        return {
            ENCODER_FILE: json.dumps(self.encoder).encode("ascii"),
            MERGES_FILE: "\n".join(
                ["#version: 0.2", *(" ".join(pair) for pair in self.merges), ""]
            ).encode(),
        }

    def _settings(self) -> dict[str, Any]:
        return {
            "sha256": {
                name: hashlib.sha256(data).hexdigest() for name, data in self._files().items()
            },
            "special": self.special,
            "end_id": self.end_id,
            "size": self.vocab_size,
        }

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        files, sums = {}, setting(settings, "sha256", dict[str, str])
        for name in (ENCODER_FILE, MERGES_FILE):
            files[name] = read_file(folder / name)
            if hashlib.sha256(files[name]).hexdigest() != sums[name]:
                raise UserError(
                    f"{folder / name}: damaged, not the file tokenizer.json was saved with"
                )
        encoder = _read_encoder(files[ENCODER_FILE], ENCODER_FILE)
        special = setting(settings, "special", dict[str, Id])
        end_id, size = setting(settings, "end_id", Id), setting(settings, "size", Id)
        if end_id not in special.values() or max([*encoder.values(), *special.values()]) >= size:
            raise ValueError("an id is outside the vocabulary")
        merges = _read_merges(files[MERGES_FILE], MERGES_FILE)
        return cls(encoder, merges, special, end_id, size)

    def sentencepiece_model(self) -> bytes:
        """The same merges as a serialised sentencepiece `ModelProto` over Latin-1 text.

        sentencepiece merges the neighbours whose joined text scores best, whatever the two are; a list
        of pairs merges the first pair. That is the same where no token can be put together in two
        ways, which `_check_fit` sees to.
        """
        rank = {a + b: number for number, (a, b) in enumerate(self.merges)}
        proto = ModelProto()
        pieces = [proto.pieces.add(piece=f"{_NAMELESS}{i}", type=3) for i in range(self.vocab_size)]
        for token, i in self.encoder.items():
            text = self.pieces[i]
            if len(text) > 1 and _CUT in text:
                continue  # No text has that byte: it would merge with a cut.
            pieces[i].piece = text.decode("latin-1").replace("\0", _NUL)
            pieces[i].type = pieces[i].NORMAL
            pieces[i].score = -float(rank.get(token, 0))
        unknown = proto.pieces.add(piece=f"{_NAMELESS}unknown")
        unknown.type = unknown.UNKNOWN
        trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
        trainer.model_type = trainer.BPE
        trainer.vocab_size = len(proto.pieces)
        trainer.unk_id = self.vocab_size
        trainer.bos_id = trainer.eos_id = trainer.pad_id = -1
        normalizer.name = "identity"
        normalizer.add_dummy_prefix = False
        normalizer.remove_extra_whitespaces = False
        normalizer.escape_whitespaces = False
        return proto.SerializeToString(deterministic=True)


class GPT2Graph(GraphTokenizer):
    def __init__(self, tokenizer: GPT2Tokenizer) -> None:
        import tensorflow_text  # Here, as for byte_pair.

        super().__init__(tokenizer)
        self._cut_id = tokenizer.pieces.index(bytes([_CUT]))
        self._encoder = tensorflow_text.SentencepieceTokenizer(
            tokenizer.sentencepiece_model(), out_type=tf.int32
        )

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        cut = bytes([_CUT])
        texts = tf.strings.regex_replace(texts, _LAST_SPACE, rb"\1" + cut + rb"\2")
        texts = tf.strings.regex_replace(texts, _WORD, rb"\0" + cut)
        texts = tf.strings.unicode_transcode(texts, "ISO-8859-1", "UTF-8")
        ids = self._encoder.tokenize(tf.strings.regex_replace(texts, r"\x00", _NUL))
        return tf.ragged.boolean_mask(ids, ids != self._cut_id)


@functools.cache
def byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in the published files, for all 256.

    What can be printed stands for itself, the rest, in order, for U+0100 and what follows.
    """
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printed)
    return {chr(byte): byte for byte in printed} | {
        chr(0x100 + number): byte for number, byte in enumerate(others)
    }


def token_bytes(token: str) -> bytes:
    """The bytes a token of the published files stands for; KeyError if it is not one."""
    alphabet = byte_alphabet()
    return bytes(alphabet[character] for character in token)


def _read_encoder(data: bytes, name: str) -> dict[str, int]:
    try:
        encoder = json.loads(data)
    except ValueError as error:
        raise UserError(f"{name}: not valid JSON ({error})") from None
    if not isinstance(encoder, dict) or not all(
        type(i) is int and 0 <= i < MOST_IDS for i in encoder.values()
    ):
        raise UserError(f"{name}: should be a JSON object, token to id")
    if len(set(encoder.values())) < len(encoder):
        raise UserError(f"{name}: two tokens have the same id")
    return encoder


def _read_merges(data: bytes, name: str) -> list[tuple[str, str]]:
    try:
        lines = data.decode().replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: not valid UTF-8 at byte {error.start}") from None
    merges = []
    for number, line in enumerate(lines, 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        first, space, second = line.partition(" ")
        if not (first and space and second) or " " in second:
            raise UserError(f"{name}: line {number}: {line[:60]!r}: should be two tokens")
        merges.append((first, second))
    return merges


def _check_fit(
    encoder: Mapping[str, int], merges: Sequence[tuple[str, str]], names: tuple[str, str]
) -> None:
    """One `UserError` if merges and tokens are not those of one vocabulary."""
    alphabet = byte_alphabet()
    missing = [character for character in alphabet if character not in encoder]
    if missing:
        raise UserError(f"{names[0]}: holds {256 - len(missing)} of the 256 bytes; should hold all")
    strange = next((token for token in encoder if not token or set(token) - set(alphabet)), None)
    if strange is not None:
        raise UserError(f"{names[0]}: {strange!r}: not a token of GPT-2's alphabet of bytes")
    ranks: dict[str, int] = {}
    for number, (a, b) in enumerate(merges, 1):
        problem = None
        if a + b not in encoder:
            problem = f"{a + b!r} is not in {names[0]}"
        elif a + b in ranks:
            problem = f"{a + b!r} is made by an earlier merge already"
        elif any(len(part) > 1 and part not in ranks for part in (a, b)):
            problem = "one of the two is made by no earlier merge"
        elif (made := _without_last_merge(a + b, ranks)) != [a, b]:
            problem = f"{a + b!r} falls apart into {' '.join(made)} before"
        if problem:
            raise UserError(
                f"{names[1]}: merge {number}, {a} {b}: {problem}; the two files do not fit each other"
            )
        ranks[a + b] = number
    unmade = [token for token in encoder if len(token) > 1 and token not in ranks]
    if unmade:
        more = f" and {len(unmade) - 1:,} more" if len(unmade) > 1 else ""
        raise UserError(
            f"{names[0]}: {unmade[0]!r}{more}: made by no merge of {names[1]}; "
            "the two files do not fit each other"
        )


def _without_last_merge(token: str, ranks: Mapping[str, int]) -> list[str]:
    """What the merges so far make of a token's characters."""
    parts = list(token)
    while len(parts) > 2:
        joined = [ranks.get(a + b, len(ranks) + 1) for a, b in itertools.pairwise(parts)]
        best = min(joined)
        if best > len(ranks):
            break
        place = joined.index(best)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts
