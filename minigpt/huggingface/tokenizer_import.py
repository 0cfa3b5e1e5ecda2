"""Reading the tokenizer of a folder: `vocab.json` and `merges.txt`, or `tokenizer.json`."""

import json
from pathlib import Path
from typing import Any

from minigpt.errors import UserError
from minigpt.huggingface.architecture import Architecture
from minigpt.huggingface.json_file import read_json_object
from minigpt.tokenizers import Tokenizer, load_tokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.gpt2_files import ENCODER_FILE, MERGES_FILE
from minigpt.tokenizers.tokenizer_file import read_file

PAIRS = (("vocab.json", "merges.txt"), (ENCODER_FILE, MERGES_FILE))
TOKENIZER_FILE, SETTINGS_FILE = "tokenizer.json", "tokenizer_config.json"
# A saved tokenizer of minigpt, which `export.huggingface` writes next to tokenizer.json.
OWN_FOLDER = "minigpt_tokenizer"
# The names of GPT-2's tokenizer in transformers.
SUPPORTED = ("GPT2Tokenizer", "GPT2TokenizerFast")


def read_tokenizer(
    folder: Path, vocab_size: int, end_id: int | None, architecture: Architecture
) -> Tokenizer:
    """Reads the tokenizer of a Hugging Face folder.

    Args:
      folder: the folder.
      vocab_size: the vocabulary size in config.json. Ids without a token are never drawn.
      end_id: the id of the end token in config.json; None means that of `<|endoftext|>`.
      architecture: the architecture of the model in the folder.
    Raises:
      UserError: there is no tokenizer, it is not of GPT-2's kind, a file is damaged, or its files do not
        match.
    """
    if (folder / OWN_FOLDER).is_dir():
        own = load_tokenizer(folder / OWN_FOLDER)
        if own.vocab_size != vocab_size:
            raise UserError(
                f"{folder / OWN_FOLDER}: has {own.vocab_size} tokens; should have {vocab_size}, as in "
                "config.json"
            )
        return own
    settings_path, path = folder / SETTINGS_FILE, folder / TOKENIZER_FILE
    settings = read_json_object(settings_path) if settings_path.is_file() else {}
    if settings.get("add_prefix_space"):
        raise UserError(f"{settings_path}: add_prefix_space = true: should be false, as in GPT-2")
    described = read_json_object(path) if path.is_file() else {}
    special = _special(settings, described)
    if architecture.tokenizer_class not in SUPPORTED:
        # vocab.json and merges.txt do not say how text is split into words.
        _check_class(settings_path, settings, described, architecture)
        if described:
            _check_pipeline(path, described)
    for names in PAIRS:
        if all((folder / name).is_file() for name in names):
            encoder, merges = (read_file(folder / name) for name in names)
            where = (str(folder / names[0]), str(folder / names[1]))
            return GPT2Tokenizer.from_files(encoder, merges, where, special, end_id, vocab_size)
    if not described:
        raise UserError(
            f"{folder}: contains no tokenizer; expected vocab.json and merges.txt, or {TOKENIZER_FILE}"
        )
    _check_pipeline(path, described)
    try:
        tokens = {str(token): int(i) for token, i in described["model"]["vocab"].items()}
        pairs = [
            tuple(pair.split(" ") if isinstance(pair, str) else pair)
            for pair in described["model"]["merges"]
        ]
        merges_read = [(str(a), str(b)) for a, b in pairs]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{path}: damaged; expected vocab and merges of a BPE model") from None
    return GPT2Tokenizer.from_tables(
        tokens, merges_read, (str(path), str(path)), special, end_id, vocab_size
    )


def _special(settings: dict[str, Any], described: dict[str, Any]) -> dict[str, int]:
    """Returns special token → id, from both files that may name them."""
    try:
        decoder = settings.get("added_tokens_decoder") or {}
        special = {token["content"]: int(i) for i, token in decoder.items()}
        return special | {t["content"]: t["id"] for t in described.get("added_tokens") or []}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _check_class(
    path: Path,
    settings: dict[str, Any],
    described: dict[str, Any],
    architecture: Architecture,
) -> None:
    """Raises a `UserError` if a folder has, or does not exclude, the architecture's own tokenizer."""
    own, named = architecture.tokenizer_class, settings.get("tokenizer_class")
    is_own = isinstance(named, str) and named.removesuffix("Fast") == own
    if is_own or not (described or named in SUPPORTED):
        raise UserError(
            f"{path}: tokenizer_class = {named!r}: should be {SUPPORTED[0]!r}, because minigpt does not "
            f"split text as {own} does, the tokenizer of the published {architecture.name}"
        )


def _check_pipeline(path: Path, described: dict[str, Any]) -> None:
    """Raises a `UserError` if tokenizer.json describes a kind of tokenizer other than GPT-2's."""

    def part(name: str) -> dict[str, Any]:
        value = described.get(name)
        return value if isinstance(value, dict) else {}

    model, pre_tokenizer = part("model"), part("pre_tokenizer")
    for name, value, expected in (
        ("model.type", model.get("type"), "BPE"),
        ("model.byte_fallback", bool(model.get("byte_fallback")), False),
        ("model.ignore_merges", bool(model.get("ignore_merges")), False),
        ("normalizer", part("normalizer").get("type"), None),
        ("pre_tokenizer.type", pre_tokenizer.get("type"), "ByteLevel"),
        ("pre_tokenizer.add_prefix_space", bool(pre_tokenizer.get("add_prefix_space")), False),
        ("pre_tokenizer.use_regex", pre_tokenizer.get("use_regex", True), True),
    ):
        if value != expected:
            raise UserError(
                f"{path}: {name} = {json.dumps(value)}: should be {json.dumps(expected)}, as in GPT-2"
            )
