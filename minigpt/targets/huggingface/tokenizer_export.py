"""Tokenizers as files for `AutoTokenizer` of `transformers`, one builder for each kind.

tokenizer.json is the format of the `tokenizers` package: a normalizer, a pre-tokenizer, a model and a
decoder.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import PATTERNS, AddedToken, GPT2Tokenizer
from minigpt.tokenizers.huggingface import HuggingFaceTokenizer, adds_tokens
from minigpt.tokenizers.vocabulary import ESCAPE, ESCAPED_ESCAPE, ESCAPED_SPACE, SPACE
from minigpt.tokenizers.word import SEPARATE, WHITE_SPACE, WordTokenizer

# The tokenizers of transformers.
CLASSES = {"gpt2": "GPT2Tokenizer", "qwen2": "Qwen2Tokenizer"}
END, PADDING, UNKNOWN = "<end>", "[PAD]", "[UNK]"


def export_problem(tokenizer: Tokenizer) -> str | None:
    """Returns why a tokenizer cannot be written with the same ids for every text; None if it can."""
    if type(tokenizer) not in BUILDERS:
        return f"tokenizer.kind = {tokenizer.kind!r}: has no form in the tokenizers package"
    if tokenizer.lowercase:
        return "tokenizer.lowercase = true: the tokenizers package maps a final Σ to another letter"
    return None


def tokenizer_files(tokenizer: Tokenizer, max_len: int) -> dict[str, str]:
    """Returns file name → content, for a tokenizer without an `export_problem`."""
    described, special = BUILDERS[type(tokenizer)](tokenizer)
    chat = tokenizer.chat
    for i, name in enumerate(chat.added if chat else (), len(tokenizer.text_pieces)):
        described["added_tokens"].append(asdict(AddedToken(i, name, special=True)))
    settings: dict[str, Any] = {
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_len,
        # Otherwise the literal "<end>" in a text would be the end token. Chat templates write such names.
        "split_special_tokens": chat is None,
        **({"chat_template": chat.template} if chat else {}),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END,
        "eos_token": END,
        **special,
    }
    files = {}
    if isinstance(tokenizer, GPT2Tokenizer):
        # As in the published GPT-2: the literal end token in a text is read as the end token.
        settings |= {"tokenizer_class": CLASSES[tokenizer.splitting], "split_special_tokens": False}
        settings |= {"add_prefix_space": False, "errors": "replace"}
        files["vocab.json"] = json.dumps(tokenizer.encoder | tokenizer.special) + "\n"
        merges = [" ".join(pair) for pair in tokenizer.merges]
        files["merges.txt"] = "\n".join(["#version: 0.2", *merges, ""])
    files["tokenizer.json"] = json.dumps(described, ensure_ascii=False, indent=1) + "\n"
    files["tokenizer_config.json"] = json.dumps(settings, indent=1) + "\n"
    return files


# The content of tokenizer.json; and the special tokens in tokenizer_config.json, without END.
Built = tuple[dict[str, Any], dict[str, str]]


def _gpt2(tokenizer: GPT2Tokenizer) -> Built:
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": tokenizer.splitting == "gpt2",
    }
    parts: dict[str, Any] = {"pre_tokenizer": byte_level, "decoder": byte_level}
    if tokenizer.splitting == "qwen2":
        split = _split(PATTERNS[tokenizer.splitting], "Isolated")
        parts["pre_tokenizer"] = _sequence("pretokenizers", split, byte_level)
        parts["normalizer"] = {"type": "NFC"}
    model = _bpe(tokenizer.encoder | tokenizer.special, tokenizer.merges)
    end = tokenizer.end_name
    described = _described(tokenizer.special, model, tokenizer.added, **parts)
    return described, {"bos_token": end, "eos_token": end, "unk_token": end}


def _given(tokenizer: HuggingFaceTokenizer) -> Built:
    described = json.loads(tokenizer.data)
    if adds_tokens(described.get("post_processor")):
        described["post_processor"] = None
    names = {i: name for name, i in tokenizer.ids.items()}
    if tokenizer.end_id not in names:
        described["added_tokens"] += [asdict(AddedToken(tokenizer.end_id, END, special=True))]
    end = names.get(tokenizer.end_id, END)
    unknown = {} if tokenizer.unknown_id is None else {"unk_token": names[tokenizer.unknown_id]}
    return described, {"bos_token": end, "eos_token": end, **unknown}


def _byte_pair(tokenizer: BytePairTokenizer) -> Built:
    vocabulary, merges = tokenizer.vocabulary_and_merges()
    model = _bpe(vocabulary, merges) | {"unk_token": "<unk>", "byte_fallback": True}
    normalizer = _sequence(
        "normalizers",
        _replace(ESCAPE, ESCAPED_ESCAPE),
        _replace(SPACE, ESCAPED_SPACE),
        _replace(" ", SPACE),
    )
    decoder = _sequence(
        "decoders",
        _replace(SPACE, " "),
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        _replace(ESCAPED_SPACE, SPACE),
        _replace(ESCAPED_ESCAPE, ESCAPE),
    )
    special = {"<unk>": 0, END: tokenizer.end_id}
    described = _described(special, model, normalizer=normalizer, decoder=decoder)
    return described, {"unk_token": "<unk>"}


def _character(tokenizer: CharacterTokenizer) -> Built:
    special = {PADDING: 0, END: tokenizer.end_id}
    names = {f"<0x{tokenizer.pieces[i][0]:02X}>": i for i in tokenizer.byte_ids}
    first = tokenizer.byte_ids[-1] + 1
    characters = {character: i for i, character in enumerate(tokenizer.characters, first)}
    model = _bpe(special | names | characters, []) | {"byte_fallback": True}
    decoder = _sequence("decoders", {"type": "ByteFallback"}, {"type": "Fuse"})
    described = _described(special, model, decoder=decoder)
    return described, {"pad_token": PADDING}


def _word(tokenizer: WordTokenizer) -> Built:
    split = _sequence("pretokenizers", _split(WHITE_SPACE, "Removed"), _split(SEPARATE, "Isolated"))
    special = {PADDING: 0, UNKNOWN: 1, END: tokenizer.end_id}
    words = {piece.decode(): i for i, piece in enumerate(tokenizer.pieces) if piece}
    model = {"type": "WordLevel", "vocab": special | words, "unk_token": UNKNOWN}
    described = _described(special, model, pre_tokenizer=split, decoder=None)
    return described, {"unk_token": UNKNOWN, "pad_token": PADDING}


BUILDERS: dict[type, Callable[[Any], Built]] = {
    GPT2Tokenizer: _gpt2,
    BytePairTokenizer: _byte_pair,
    CharacterTokenizer: _character,
    WordTokenizer: _word,
    HuggingFaceTokenizer: _given,
}


def _described(
    special: dict[str, int], model: dict[str, Any], added: Iterable[AddedToken] = (), **parts: Any
) -> dict[str, Any]:
    tokens = {content: AddedToken(i, content, special=True) for content, i in special.items()}
    tokens |= {token.content: token for token in added}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            asdict(token) for token in sorted(tokens.values(), key=lambda token: token.id)
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        **parts,
        "model": model,
    }


def _bpe(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocabulary,
        "merges": [list(pair) for pair in merges],
    }


def _replace(old: str, new: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def _split(pattern: str, behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def _sequence(name: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", name: list(parts)}
