"""GPT-2's tokenizer: byte-level byte-pair encoding with a published vocabulary.

Radford et al. (2019), "Language Models are Unsupervised Multitask Learners", section 2.2. The text is
split into words by the pattern of the published encoder. Then neighbors among the UTF-8 bytes of a word
are merged, in the order of the published list of merges. The tokenizers of Qwen2 and Qwen3 have another
pattern and normalize the text first. Added tokens, texts such as `<user>` that are one token wherever they
occur, are found before, as the tokenizers package finds them.

sentencepiece does the merging, as for `byte_pair`, on Latin-1 text, in which every character is one byte.
"""

import array
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import sentencepiece
from pydantic import Field, TypeAdapter, ValidationError
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from minigpt.errors import UserError
from minigpt.tokenizers.base import Tokenizer, checked, encode_chunks, read_checked_file
from minigpt.tokenizers.byte_pair import merged
from minigpt.tokenizers.unicode_tables import nfc, one_of, one_outside, parse_ranges, ranges

END_TOKEN = "<|endoftext|>"
# The published files.
ENCODER_FILE, MERGES_FILE = "encoder.json", "vocab.bpe"
# A vocabulary from an untrusted source must not exhaust memory: every id up to the largest needs some.
MAX_IDS = 2**24
_ENCODER = TypeAdapter(dict[str, Annotated[int, Field(ge=0, lt=MAX_IDS)]])
# A byte that never occurs in UTF-8. The graph separates words with it.
SEPARATOR = 0xFF
# sentencepiece does not accept NUL as a character. The first character after Latin-1 replaces it.
NUL = "\u0100"
_UNNAMED = "\u0101"
START = "<|startoftext|>"

Splitting = Literal["gpt2", "qwen2"]

# As they are published. `word_pattern` and the graph have them in other terms.
PATTERNS: dict[Splitting, str] = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
WHITE_SPACE = parse_ranges("9-D 20 85 A0 1680 2000-200A 2028-2029 202F 205F 3000")
# A word ends at a match, however the text goes on.
CUT_AFTER: dict[Splitting, re.Pattern[str]] = {
    "gpt2": re.compile(r"\S(?=[ \n])"),
    # Line breaks belong to signs before them.
    "qwen2": re.compile(r"\S(?= )|[A-Za-z\u3400-\u9fff](?=\n)"),
}
# U+017F is a form of "s".
CONTRACTIONS: dict[Splitting, str] = {
    "gpt2": "'(?:[stmd]|re|ve|ll)",
    "qwen2": "'(?:[sS\u017ftTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])",
}


@functools.cache
def word_pattern(splitting: Splitting) -> re.Pattern[str]:
    """Returns a published pattern, which matches the words of a text one after the other.

    Its classes of characters are those of TensorFlow's RE2, and the same in every version of Python.
    """
    letters = one_of(ranges("L"), "+")
    signs = one_outside(ranges("L", "N") + WHITE_SPACE, "+")
    inside = "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in WHITE_SPACE)
    spaces = f"[{inside}]+(?![^{inside}])|[{inside}]+"
    if splitting == "gpt2":
        words = rf" ?{letters}| ?{one_of(ranges('N'), '+')}| ?{signs}"
    else:
        before = one_outside([*ranges("L", "N"), (0x0A, 0x0A), (0x0D, 0x0D)])
        words = rf"{before}?{letters}|{one_of(ranges('N'))}| ?{signs}[\r\n]*|[{inside}]*[\r\n]+"
    return re.compile(f"{CONTRACTIONS[splitting]}|{words}|{spaces}")


@dataclass(frozen=True)
class AddedToken:
    """A token and its flags, with the names of tokenizer.json.

    Attributes:
      content: its text, not empty.
      single_word, lstrip, rstrip: False: `GPT2Tokenizer` finds a token wherever its text occurs.
      normalized: whether it is searched for in the normalized text.
      special: whether it is a special token. This does not change how text is encoded.
    """

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


def read_added_tokens(described: Any) -> list[AddedToken]:
    """Reads entries of tokenizer.json, whose missing flags have their defaults; a ValueError if damaged."""
    tokens = TypeAdapter(list[AddedToken]).validate_json(json.dumps(described), strict=True)
    if not all(token.content and token.id >= 0 for token in tokens):
        raise ValueError("an added token has no text or a negative id")
    return tokens


def alternatives(contents: Iterable[str]) -> str:
    """Returns a pattern for one of several texts: the longest of those that begin at a character."""
    return "|".join(map(re.escape, sorted(contents, key=len, reverse=True)))


class GPT2Tokenizer(Tokenizer):
    """GPT-2's published vocabulary, or another one in the same two file formats.

    Ids without text (special tokens, and unused ids below `size`) decode to nothing and are never
    drawn. The end token is an exception: it can be drawn.

    Added tokens, which an imported tokenizer may have, are encoded, drawn and decoded as
    `transformers` does: each occurrence of their text is one token, and the token decodes to this text,
    whether it is special or not. The end token alone decodes to nothing, because it ends a text.
    """

    kind: ClassVar[str] = "gpt2"
    unknown_id = None

    def __init__(
        self,
        encoder: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        special: Mapping[str, int],
        end_id: int,
        size: int | None = None,
        added: Sequence[AddedToken] = (),
        splitting: Splitting = "gpt2",
    ) -> None:
        """Takes a vocabulary without checking it; `from_files` and `from_tables` check it.

        Args:
          encoder: token → id, as in encoder.json, without special tokens.
          merges: pairs of tokens in the order of merging.
          special: special token → id.
          end_id: the id of the end token, one of `special`.
          size: the number of ids, if it is larger than the number of tokens.
          added: the tokens that are found in a text; those of `special` that are not among them are not.
          splitting: the pattern that splits text into words. With "qwen2", the text is normalized too:
            to Unicode's form C.
        """
        self.encoder = dict(encoder)
        self.merges = list(merges)
        self.special = dict(special)
        size = max(size or 0, 1 + max([*encoder.values(), *special.values()]))
        pieces = [b""] * size
        for token, i in encoder.items():
            pieces[i] = token_bytes(token)
        for each in added:
            if each.id != end_id:
                pieces[each.id] = added_bytes(each.content)
        super().__init__(pieces, lowercase=False)
        self.end_id = end_id
        self.added = tuple(added)
        self.splitting = splitting
        self.cut_after = CUT_AFTER[splitting]  # type: ignore[misc]  # other kinds have one for the class
        if flagged := [t.content for t in added if t.single_word or t.lstrip or t.rstrip]:
            problem = "single_word, lstrip and rstrip should be false"
            raise UserError(f"tokenizer.json: the added token {flagged[0]!r}: {problem}")
        as_they_are = {t.content: t.id for t in added if not t.normalized}
        normalized = {self.normalize(t.content): t.id for t in added if t.normalized}
        self._searches = [
            (change, re.compile(f"({alternatives(ids)})"), ids)
            for change, ids in ((str, as_they_are), (self.normalize, normalized))
            if ids
        ]
        # Normalization changes a text. The name of the end token gets lost too, but that ends a document.
        self.lossless = splitting == "gpt2"

    @classmethod
    def from_files(
        cls,
        encoder: bytes,
        merges: bytes,
        names: tuple[str, str] = (ENCODER_FILE, MERGES_FILE),
        **more: Any,
    ) -> Self:
        """Reads and checks the two published files, or two files of the same form.

        Args:
          encoder: JSON, token → id.
          merges: a line with the version, then two tokens in each line.
          names: the names of the two files, for messages.
          **more: as for `from_tables`.
        Raises:
          UserError: a file is damaged, or the two files do not match.
        """
        tokens, pairs = read_encoder(encoder, names[0]), read_merges(merges, names[1])
        return cls.from_tables(tokens, pairs, names, **more)

    @classmethod
    def from_tables(
        cls,
        tokens: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        names: tuple[str, str],
        special: Mapping[str, int] | None = None,
        end_id: int | None = None,
        size: int | None = None,
        added: Sequence[AddedToken] = (),
        splitting: Splitting = "gpt2",
    ) -> Self:
        """Checks the content of the two files, and separates the special tokens; see the constructor.

        Args:
          tokens: token → id; may include special tokens.
          names: the names of the two files, for messages.
          special: special token → id. Not needed for `<|endoftext|>` in `tokens`.
          end_id: the id of the end token; None means that of `<|endoftext|>`.
        Raises:
          UserError: tokens, merges, special tokens and size do not match.
        """
        special = dict(special or {})
        if END_TOKEN in tokens:
            special.setdefault(END_TOKEN, tokens[END_TOKEN])
        encoder = {token: i for token, i in tokens.items() if token not in special}
        check_tokens_and_merges(encoder, merges, names)
        end_id = special.get(END_TOKEN, -1) if end_id is None else end_id
        if end_id not in special.values():
            raise UserError(f"{names[0]}: has no end token; should contain {END_TOKEN}")
        ids = [*encoder.values(), *special.values()]
        if len(set(ids)) < len(ids) or max(ids) >= (size or MAX_IDS):
            raise UserError(
                f"{names[0]}: has {len(ids)} tokens with ids up to {max(ids)}; should be different ids "
                f"below {size or MAX_IDS}, the vocabulary size"
            )
        return cls(encoder, merges, special, end_id, size, added, splitting)

    def normalize(self, text: str) -> str:
        """Returns the text that is split into words."""
        return nfc(text) if self.splitting == "qwen2" else text

    def encode_many(self, texts: Sequence[str]) -> list[np.ndarray]:
        if not self.added:
            return super().encode_many(texts)
        # Before they are cut: a cut could separate an added token from white space that belongs to it.
        divided = [self._divided(text) for text in checked(texts)]
        between = [part for parts in divided for part in parts if isinstance(part, str)]
        encoded = iter(super().encode_many(between))
        joined = []
        for parts in divided:
            ids = [next(encoded) if isinstance(p, str) else np.array([p], np.int32) for p in parts]
            joined.append(np.concatenate([np.zeros(0, np.int32), *ids]))
        return joined

    def encode_plain(self, texts: Sequence[str]) -> list[np.ndarray]:
        return super().encode_many(texts)

    def _divided(self, text: str) -> list[str | int]:
        """Returns the ids of the added tokens in a text, and the texts between them, in their order."""
        parts: list[str | int] = [text]
        for change, pattern, ids in self._searches:
            split: Iterable[Any] = (
                pattern.split(change(p)) if isinstance(p, str) else [p] for p in parts
            )
            # The text between two tokens is none.
            parts = [ids.get(part, part) for found in split for part in found if part != ""]
        return parts

    @property
    def end_name(self) -> str:
        return next(name for name, i in self.special.items() if i == self.end_id)

    def with_start(self) -> Self:
        """Returns a copy whose last id is a beginning-of-sentence token: no published id is free."""
        special = self.special | {START: self.vocab_size}
        arguments = (self.end_id, None, self.added, self.splitting)
        tokenizer = type(self)(self.encoder, self.merges, special, *arguments)
        tokenizer.own_start_id = self.vocab_size
        return tokenizer

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        split = word_pattern(self.splitting).findall
        normalized = [self.normalize(text) for text in texts]
        return encode_chunks(normalized, split, self._encode_words)

    def _encode_words(self, words: list[str]) -> list[bytes]:
        latin = [word.encode().decode("latin-1").replace("\0", NUL) for word in words]
        encoded = self._processor.encode(latin, num_threads=1)
        return [array.array("i", ids).tobytes() for ids in encoded]

    @functools.cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.sentencepiece_model())

    def _files(self) -> dict[str, bytes]:
        merges = ["#version: 0.2", *(" ".join(pair) for pair in self.merges), ""]
        encoder = json.dumps(self.encoder)
        return {ENCODER_FILE: encoder.encode("ascii"), MERGES_FILE: "\n".join(merges).encode()}

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "sha256": {n: hashlib.sha256(data).hexdigest() for n, data in self._files().items()},
            "special": self.special,
            "end_id": self.end_id,
            "size": len(self.text_pieces),
        }
        # A tokenizer like the published GPT-2 does not have these.
        if self.added:
            settings["added"] = [asdict(token) for token in self.added]
        if self.splitting != "gpt2":
            settings["splitting"] = self.splitting
        return settings

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        hashes = settings["sha256"]
        encoder, merges = (
            read_checked_file(folder / name, hashes[name]) for name in (ENCODER_FILE, MERGES_FILE)
        )
        return cls(
            read_encoder(encoder, ENCODER_FILE),
            read_merges(merges, MERGES_FILE),
            settings["special"],
            settings["end_id"],
            settings["size"],
            read_added_tokens(settings.get("added", [])),
            settings.get("splitting", "gpt2"),
        )

    def sentencepiece_model(self) -> bytes:
        """Returns the merges as a serialized sentencepiece `ModelProto` for Latin-1 text.

        sentencepiece merges the neighbors whose joined text has the best score; the published encoder
        merges the first pair in a list. The two are the same if no token can be made of two different
        pairs, which `from_tables` checks.
        """
        rank = {a + b: number for number, (a, b) in enumerate(self.merges)}
        proto = ModelProto()
        pieces = [proto.pieces.add(piece=f"{_UNNAMED}{i}", type=3) for i in range(self.vocab_size)]
        for token, i in self.encoder.items():
            text = self.pieces[i]
            if len(text) > 1 and SEPARATOR in text:
                continue  # No text contains it, and it would merge with a separator.
            pieces[i].piece = text.decode("latin-1").replace("\0", NUL)
            pieces[i].type = pieces[i].NORMAL
            pieces[i].score = -float(rank.get(token, 0))
        unknown = proto.pieces.add(piece=f"{_UNNAMED}unknown")
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


@functools.cache
def byte_alphabet() -> dict[str, int]:
    """Returns the byte of each of the 256 characters that represent bytes in the published files.

    A printable byte is represented by itself, the others, in order, by the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + number): byte for number, byte in enumerate(others)
    }


def token_bytes(token: str) -> bytes:
    """Returns the bytes that a token of the published files represents."""
    alphabet = byte_alphabet()
    return bytes(alphabet[character] for character in token)


def added_bytes(content: str) -> bytes:
    """Returns the bytes that an added token decodes to.

    The tokenizers package reads a token in the byte alphabet as bytes, even if it was added as text.
    """
    return token_bytes(content) if set(content) <= byte_alphabet().keys() else content.encode()


def read_encoder(data: bytes, name: str) -> dict[str, int]:
    """Reads encoder.json, token → id; a `UserError` with the file's name if it is damaged."""
    try:
        return _ENCODER.validate_json(data, strict=True)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise UserError(f"{name}: should be a JSON object, token to id: {problem}") from None


def read_merges(data: bytes, name: str) -> list[tuple[str, str]]:
    """Reads vocab.bpe, the merges in their order; a `UserError` with the file's name if it is damaged."""
    try:
        first, *lines = data.decode().replace("\r\n", "\n").split("\n")
        lines = lines if first.startswith("#version") else [first, *lines]
        return [(a, b) for a, b in (line.split(" ") for line in lines if line)]
    except ValueError as error:
        raise UserError(f"{name}: should have two tokens in each line: {error}") from None


def check_tokens_and_merges(
    encoder: Mapping[str, int], merges: Sequence[tuple[str, str]], names: tuple[str, str]
) -> None:
    """Raises a `UserError` if merges and tokens do not belong to one vocabulary."""
    alphabet = byte_alphabet()
    invalid = next((token for token in encoder if not token or set(token) - set(alphabet)), None)
    if invalid is not None or not alphabet.keys() <= encoder.keys():
        raise UserError(f"{names[0]}: should have GPT-2's alphabet of 256 bytes: {invalid!r}")
    ranks: dict[str, int] = {}
    for number, (a, b) in enumerate(merges, 1):
        # The earlier merges should make the two parts, and not more.
        if a + b not in encoder or merged(a + b, ranks, number) != [a, b]:
            raise UserError(
                f"{names[1]}: merge {number}, {a} {b}: does not match the earlier ones and {names[0]}"
            )
        ranks[a + b] = number
    unmade = next((token for token in encoder if len(token) > 1 and token not in ranks), None)
    if unmade:
        raise UserError(f"{names[0]}: {unmade!r}: no merge in {names[1]} makes it")
