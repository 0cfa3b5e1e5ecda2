"""The tokenizer of a tokenizer.json, the format of the tokenizers package of Hugging Face.

Byte-level byte pairs as GPT-2's and Qwen3's become a `GPT2Tokenizer`, which needs no other package and has
all exports. The tokenizers package encodes with all others.
"""

import json
import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigpt.environment import install_command
from minigpt.errors import UserError
from minigpt.tokenizers import gpt2
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.given import END_NAMES, UNKNOWN_NAMES, FileTokenizer

NAMES: dict[gpt2.Splitting, str] = {"gpt2": "GPT-2", "qwen2": "Qwen3"}
_BYTE = re.compile("<0x([0-9A-F]{2})>")


class HuggingFaceTokenizer(FileTokenizer):
    """Encodes with the tokenizers package. No special token is found in a text or added to it.

    Attributes:
      ids: token → id.
    """

    kind: ClassVar[str] = "huggingface"
    file_name: ClassVar[str] = "huggingface.json"
    unknown_id = None

    def __init__(self, data: bytes) -> None:
        try:
            from tokenizers import Tokenizer as Library
        except ImportError:
            command = install_command("huggingface")
            raise UserError(f"tokenizer.kind = 'huggingface': not installed: {command}") from None
        try:
            library = Library.from_str(data.decode())
            described = json.loads(library.to_str())
            self._library = Library.from_str(json.dumps(_without_special(described)))
        except Exception as error:  # The package raises exceptions of this class.
            raise ValueError(f"not a tokenizer.json: {error}") from None
        self.ids = ids = library.get_vocab(with_added_tokens=True)
        largest = max(ids.values(), default=-1)
        if largest >= gpt2.MAX_IDS:
            raise ValueError(f"has the id {largest:,}; should be below {gpt2.MAX_IDS:,}")
        self.end_id = next((ids[name] for name in END_NAMES if name in ids), largest + 1)
        is_bytes = gpt2.byte_alphabet().keys() <= ids.keys()
        unknown = described["model"].get("unk_token")
        names = [unknown] if unknown else UNKNOWN_NAMES
        if not is_bytes and not described["model"].get("byte_fallback"):
            self.unknown_id = next((ids[name] for name in names if name in ids), None)
        special = {token["id"] for token in described["added_tokens"] if token["special"]}
        silent = {self.end_id, self.unknown_id, *special}
        pieces = [b""] * (max(largest, self.end_id) + 1)
        # The text of a token is what it adds to another one: the first token of a text may lose a space.
        texts = {i: token for token, i in ids.items() if i not in silent}
        first = [i for i, text in texts.items() if text.isalpha()][:1]
        begin, decode = len(library.decode(first)), library.decode
        for i, token in texts.items():
            if is_bytes:
                pieces[i] = gpt2.added_bytes(token)
            elif byte := _BYTE.fullmatch(token):
                pieces[i] = bytes.fromhex(byte[1])
            else:
                text = decode([*first, i])[begin:]
                self.has_space |= text.startswith(" ") and not decode([i]).startswith(" ")
                pieces[i] = text.encode()
        super().__init__(data, pieces)
        adds_space = '"add_prefix_space": true' in json.dumps(described["pre_tokenizer"])
        self.lossless = is_bytes and not described["normalizer"] and not adds_space

    @classmethod
    def from_data(cls, data: bytes, path: Path) -> Tokenizer:
        # Other kinds of tokenizers than GPT-2's and Qwen3's.
        with suppress(UserError, ValueError, TypeError, RecursionError):
            # No special tokens are added to a text, nor found in one that a user types.
            described = {**json.loads(data), "post_processor": None}
            return read_gpt2(path, described, finds_special=False)
        return cls(data)

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        return [np.array(self._library.encode(text).ids, np.int32) for text in texts]


def _without_special(described: dict[str, Any]) -> dict[str, Any]:
    """Returns a tokenizer.json that finds no special token in a text and adds none to it."""
    special = {token["content"] for token in described["added_tokens"] if token["special"]}
    # Some models would find the name of a token that is in their vocabulary. No text has this name.
    names = {name: f"\ufffe{uuid.uuid4()}" for name in special}
    model = dict(described["model"])
    vocab, unknown = model["vocab"], model.get("unk_token")
    if isinstance(vocab, dict):
        model["vocab"] = {names.get(token, token): i for token, i in vocab.items()}
        model |= {"unk_token": names.get(unknown, unknown)}
    else:
        model["vocab"] = [[names.get(token, token), score] for token, score in vocab]
    added = [token for token in described["added_tokens"] if not token["special"]]
    parts = {"added_tokens": added, "padding": None, "truncation": None, "post_processor": None}
    return {**described, **parts, "model": model}


def read_gpt2(
    path: Path,
    described: dict[str, Any],
    end_id: int | None = None,
    size: int | None = None,
    finds_special: bool = True,
) -> gpt2.GPT2Tokenizer:
    """Returns the tokenizer of a tokenizer.json of GPT-2's or Qwen3's kind.

    Args:
      path: the file, for messages.
      end_id: the id of the end token; by default that of the first of END_NAMES that is there.
      size: the number of ids, if it is larger than the number of tokens.
      finds_special: whether special tokens are found in a text.
    Raises:
      UserError: the file is of another kind, or damaged.
    """
    splitting = splitting_of(path, described)
    try:
        vocab, merges = described["model"]["vocab"], described["model"]["merges"]
        tokens = {str(token): int(i) for token, i in vocab.items()}
        split = (pair.split(" ") if isinstance(pair, str) else pair for pair in merges)
        pairs = [(str(a), str(b)) for a, b in split]
        # Tokens that are not special are searched for in the normalized text, if nothing else is said.
        listed = described.get("added_tokens") or []
        listed = [{"normalized": not each.get("special", False), **each} for each in listed]
        added = gpt2.read_added_tokens(listed)
    except (KeyError, TypeError, ValueError, AttributeError):
        problem = "should have vocab, merges and added tokens with id and content"
        raise UserError(f"{path}: damaged; {problem}") from None
    # An added token may also be a part of words, with the same id.
    ordinary = {*gpt2.byte_alphabet(), *(a + b for a, b in pairs)} & tokens.keys()
    special = {token.content: token.id for token in added if token.content not in ordinary}
    if end_id is None:
        end_id = next((special[name] for name in END_NAMES if name in special), None)
    added = [token for token in added if finds_special or not token.special]
    return gpt2.GPT2Tokenizer.from_tables(
        tokens, pairs, (str(path), str(path)), special, end_id, size, added, splitting
    )


def splitting_of(path: Path, described: dict[str, Any]) -> gpt2.Splitting:
    """Returns how a tokenizer.json splits text; a `UserError` unless it is of GPT-2's or Qwen3's kind."""
    before = described.get("pre_tokenizer")
    is_sequence = isinstance(before, dict) and before.get("type") == "Sequence"
    splitting: gpt2.Splitting = "qwen2" if is_sequence else "gpt2"
    if difference := _difference(described, _EXPECTED[splitting] | _COMMON):
        name, value, right = difference
        raise UserError(
            f"{path}: {name} = {json.dumps(value)}: should be {json.dumps(right)}, as in "
            f"{NAMES[splitting]}"
        )
    if adds_tokens(described.get("post_processor")):
        raise UserError(f"{path}: post_processor: adds tokens to every text, as minigpt does not")
    return splitting


_BYTES = {"type": "ByteLevel", "add_prefix_space": False}
_SPLIT = {"type": "Split", "pattern": {"Regex": gpt2.PATTERNS["qwen2"]}, "behavior": "Isolated"}
_SPLITS = [{**_SPLIT, "invert": False}, {**_BYTES, "use_regex": False}]
_EXPECTED: dict[gpt2.Splitting, dict[str, Any]] = {
    "gpt2": {"pre_tokenizer": {**_BYTES, "use_regex": True}, "normalizer": None},
    "qwen2": {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _SPLITS},
        "normalizer": {"type": "NFC"},
    },
}
_COMMON = {
    "model": {"type": "BPE", "dropout": None, "byte_fallback": False, "ignore_merges": False},
    "decoder": {"type": "ByteLevel"},
}
# What is left out has these values.
_DEFAULTS = {"use_regex": True, "decoder": {"type": "ByteLevel"}}
_DEFAULTS |= dict.fromkeys(["byte_fallback", "ignore_merges", "add_prefix_space", "invert"], False)


def _difference(value: Any, right: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """Returns the first part of JSON that is not as it should be: its place, its value, the right one."""
    if value is None:
        value = _DEFAULTS.get(name.rpartition(".")[2])
    if isinstance(right, list):
        right = dict(enumerate([*right, None]))
        value = dict(enumerate(value)) if isinstance(value, list) else value
    if isinstance(right, dict) and isinstance(value, dict):
        found = (_difference(value.get(key), part, f"{name}.{key}") for key, part in right.items())
        return next(filter(None, found), None)
    return None if value == right else (name[1:], value, right)


def adds_tokens(processor: Any) -> bool:
    """Returns whether a post-processor of tokenizer.json adds tokens to a text."""
    if not isinstance(processor, dict) or processor.get("type") == "ByteLevel":
        return False
    if processor.get("type") == "Sequence":
        return any(map(adds_tokens, processor.get("processors") or []))
    parts = processor.get("single")
    return not isinstance(parts, list) or any("Sequence" not in part for part in parts)
