"""The tokenizer of a tokenizer.json, the format of the tokenizers package of Hugging Face.

Byte-level byte pairs as GPT-2's and Qwen3's become a `GPT2Tokenizer`, which needs no other package and has
all exports. The tokenizers package encodes with all others.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigpt.environment import install_command
from minigpt.errors import UserError
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.given import END_NAMES, NEVER, GivenTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.gpt2_files import MAX_IDS, added_bytes, byte_alphabet
from minigpt.tokenizers.splitting import PATTERNS, AddedToken, Splitting, read_added_tokens

NAMES: dict[Splitting, str] = {"gpt2": "GPT-2", "qwen2": "Qwen3"}
# The decoders whose text is the joined text of the tokens.
_DECODERS = [
    *(
        "ByteLevel",
        "Metaspace",
        "Replace",
        "ByteFallback",
        "Fuse",
        "Strip",
        "WordPiece",
        "BPEDecoder",
    )
]


class HuggingFaceTokenizer(GivenTokenizer):
    """Encodes with the tokenizers package. No special token is found in a text or added to it.

    Attributes:
      ids: token → id.
    """

    kind: ClassVar[str] = "huggingface"
    file_name: ClassVar[str] = "huggingface.json"
    cut_after = NEVER

    def __init__(self, data: bytes) -> None:
        """
        Args:
          data: the content of a tokenizer.json.
        Raises:
          ValueError: the tokenizers package cannot read it, or its text is not that of its tokens.
          UserError: the package is not installed.
        """
        try:
            from tokenizers import Tokenizer as Library
        except ImportError:
            raise UserError(
                f"tokenizer.kind = 'huggingface': tokenizers not installed: "
                f"{install_command('huggingface')}"
            ) from None
        try:
            library = Library.from_str(data.decode())
        except Exception as error:  # The package raises exceptions of this class.
            raise ValueError(f"not a tokenizer.json: {error}") from None
        library.no_padding()
        library.no_truncation()
        library.encode_special_tokens = True
        self._library = library
        described = json.loads(library.to_str())
        self.ids = ids = library.get_vocab(with_added_tokens=True)
        special = {t["content"] for t in described["added_tokens"] if t["special"]}
        end = next((name for name in END_NAMES if name in ids), None)
        unknown = _unknown(described["model"], ids)
        self.end_id = max(ids.values(), default=-1) + 1 if end is None else ids[end]
        size = max(self.end_id, *ids.values()) + 1
        if size > MAX_IDS:
            raise ValueError(f"has the id {size - 1:,}; should be below {MAX_IDS:,}")
        pieces, texts = [b""] * size, _Texts(described)
        added = {token["content"] for token in described["added_tokens"]}
        for token, i in ids.items():
            if token not in special and i not in (self.end_id, unknown):
                pieces[i] = token.encode() if token in added else texts.of(token)
        super().__init__(data, pieces)
        self.unknown_id = unknown
        self.never_sampled_ids = tuple(
            i for i, p in enumerate(pieces) if not p and i != self.end_id
        )
        self._has_space = texts.has_space
        is_exact = texts.is_byte_level and not described["normalizer"]
        adds_space = '"add_prefix_space": true' in json.dumps(described["pre_tokenizer"])
        self.lossless = is_exact and not adds_space

    @classmethod
    def _from_data(cls, data: bytes, path: Path) -> Tokenizer:
        try:
            described = json.loads(data)
        except RecursionError:
            raise ValueError("not a tokenizer.json") from None
        if isinstance(described, dict):
            # Another kind of tokenizer raises it.
            with suppress(UserError):
                return _gpt2(path, described)
        return cls(data)

    def decode_bytes(self, data: bytes) -> str:
        text = super().decode_bytes(data)
        return text.removeprefix(" ") if self._has_space else text

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        encode = self._library.encode
        return [np.array(encode(t, add_special_tokens=False).ids, np.int32) for t in texts]


class _Texts:
    """The text of each token, by the decoder of a tokenizer.json.

    Attributes:
      is_byte_level: whether a token is bytes in GPT-2's alphabet.
      has_space: whether the first token of a text has a space that the text does not have.
    """

    def __init__(self, described: dict[str, Any]) -> None:
        decoder = described["decoder"] or {"type": None}
        self._decoders = {d["type"]: d for d in decoder.get("decoders", [decoder])}
        self._replaced = [d for d in decoder.get("decoders", [decoder]) if d["type"] == "Replace"]
        if other := self._decoders.keys() - {*_DECODERS, None}:
            raise ValueError(f"decoder.type = {min(other)!r}: should be {', '.join(_DECODERS)}")
        self.is_byte_level = "ByteLevel" in self._decoders
        metaspace = self._decoders.get("Metaspace", {"prepend_scheme": "never"})
        self.has_space = (
            metaspace["prepend_scheme"] != "never"
            or self._decoders.keys() & {"WordPiece", None} != set()
            or self._decoders.get("Strip", {"start": 0})["start"] > 0
        )

    def of(self, token: str) -> bytes:
        """Returns the bytes that a token adds to a text."""
        names = self._decoders.keys()
        if self.is_byte_level:
            return added_bytes(token)
        if "ByteFallback" in names and len(token) == 6 and token[:3] + token[5] == "<0x>":
            return bytes([int(token[3:5], 16)])
        if "WordPiece" in names:
            prefix = self._decoders["WordPiece"]["prefix"]
            token = token.removeprefix(prefix) if token.startswith(prefix) else f" {token}"
        elif None in names:
            token = f" {token}"
        if "Metaspace" in names:
            token = token.replace(self._decoders["Metaspace"]["replacement"], " ")
        if "BPEDecoder" in names:
            token = token.replace(self._decoders["BPEDecoder"]["suffix"], " ")
        for each in self._replaced:
            token = token.replace(each["pattern"].get("String", ""), each["content"])
        return token.encode()


def _unknown(model: dict[str, Any], ids: dict[str, int]) -> int | None:
    """Returns the id that is encoded for what is not in the vocabulary; None if all texts are."""
    if model.get("byte_fallback") or byte_alphabet().keys() <= ids.keys():
        return None
    found: int | None = (
        model.get("unk_id") if model["type"] == "Unigram" else ids.get(str(model.get("unk_token")))
    )
    return found


def _gpt2(path: Path, described: dict[str, Any]) -> GPT2Tokenizer:
    """Returns the tokenizer of a tokenizer.json of GPT-2's or Qwen3's kind.

    Raises:
      UserError: it is of another kind, or has no end token.
    """
    # No special tokens are added to a text.
    splitting = splitting_of(path, {**described, "post_processor": None})
    tokens, merges = bpe_tables(path, described)
    added = added_tokens(path, described.get("added_tokens") or [])
    ids = {token.content: token.id for token in added}
    end = next((ids[name] for name in END_NAMES if name in ids), None)
    # Special tokens are not found in a text that a user types.
    found = [token for token in added if not token.special]
    names = (str(path), str(path))
    return GPT2Tokenizer.from_tables(tokens, merges, names, ids, end, None, found, splitting)


def bpe_tables(
    path: Path, described: dict[str, Any]
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Returns token → id and the merges of a tokenizer.json."""
    try:
        tokens = {str(token): int(i) for token, i in described["model"]["vocab"].items()}
        pairs = [
            tuple(pair.split(" ") if isinstance(pair, str) else pair)
            for pair in described["model"]["merges"]
        ]
        return tokens, [(str(a), str(b)) for a, b in pairs]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{path}: damaged; expected vocab and merges of a BPE model") from None


def added_tokens(path: Path, described: Any) -> list[AddedToken]:
    """Returns the tokens of a list of added tokens; flags that are missing have their defaults."""
    try:
        # Tokens that are not special are searched for in the normalized text, if nothing else is said.
        return read_added_tokens(
            [{"normalized": not t.get("special", False), **t} for t in described]
        )
    except (TypeError, ValueError, AttributeError):
        raise UserError(f"{path}: damaged; expected added tokens with id and content") from None


def splitting_of(path: Path, described: dict[str, Any]) -> Splitting:
    """Returns how a tokenizer.json splits text into words.

    Raises:
      UserError: it describes a kind of tokenizer other than GPT-2's and Qwen3's.
    """

    byte_level = "pre_tokenizer"
    splitting: Splitting = "gpt2"
    expected: list[tuple[str, Any, Any]] = []
    if _part(described, "pre_tokenizer.type") == "Sequence":
        splitting, parts = "qwen2", "pre_tokenizer.pretokenizers"
        byte_level = f"{parts}.1"
        expected = [
            (f"{parts}.0.type", "Split", None),
            (f"{parts}.0.pattern.Regex", PATTERNS["qwen2"], None),
            (f"{parts}.0.behavior", "Isolated", None),
            (f"{parts}.0.invert", False, False),
            (f"{parts}.2", None, None),
        ]
    expected += [
        ("model.type", "BPE", None),
        ("model.dropout", None, None),
        ("model.byte_fallback", False, False),
        ("model.ignore_merges", False, False),
        ("normalizer.type", "NFC" if splitting == "qwen2" else None, None),
        (f"{byte_level}.type", "ByteLevel", None),
        (f"{byte_level}.add_prefix_space", False, False),
        (f"{byte_level}.use_regex", splitting == "gpt2", True),
        ("decoder.type", "ByteLevel", "ByteLevel"),
    ]
    for name, right, default in expected:
        value = _part(described, name)
        if (default if value is None else value) != right:
            raise UserError(
                f"{path}: {name} = {json.dumps(value)}: should be {json.dumps(right)}, as in "
                f"{NAMES[splitting]}"
            )
    if adds_tokens(described.get("post_processor")):
        raise UserError(
            f"{path}: post_processor.type = {json.dumps(_part(described, 'post_processor.type'))}: "
            'adds tokens to every text, which minigpt does not; should be "ByteLevel"'
        )
    return splitting


def _part(whole: Any, name: str) -> Any:
    """Returns a part of JSON by the names and numbers on the way to it; None if there is none."""
    for key in name.split("."):
        if isinstance(whole, list) and key.isdigit():
            whole = whole[int(key)] if int(key) < len(whole) else None
        else:
            whole = whole.get(key) if isinstance(whole, dict) else None
    return whole


def adds_tokens(processor: Any) -> bool:
    """Returns whether a post-processor of tokenizer.json adds tokens to a text."""
    if not isinstance(processor, dict) or processor.get("type") == "ByteLevel":
        return False
    if processor.get("type") == "Sequence":
        return any(map(adds_tokens, processor.get("processors") or []))
    parts = processor.get("single")
    return not isinstance(parts, list) or any("Sequence" not in part for part in parts)
