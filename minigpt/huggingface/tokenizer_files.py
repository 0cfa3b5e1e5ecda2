"""The tokenizer of a folder: `vocab.json` and `merges.txt`, or `tokenizer.json`."""

import json
from pathlib import Path
from typing import Any

from minigpt.errors import UserError
from minigpt.tokenizers import Tokenizer, load_tokenizer
from minigpt.tokenizers.gpt2 import ENCODER_FILE, MERGES_FILE, GPT2Tokenizer
from minigpt.tokenizers.tokenizer_file import read_file

PAIRS = (("vocab.json", "merges.txt"), (ENCODER_FILE, MERGES_FILE))
TOKENIZER_FILE, SETTINGS_FILE = "tokenizer.json", "tokenizer_config.json"
# What our export puts beside tokenizer.json where the tokenizer is one of our own.
OWN_FOLDER = "minigpt_tokenizer"


def read_tokenizer(folder: Path, vocab_size: int, end_id: int | None) -> Tokenizer:
    """The tokenizer of a Hugging Face folder.

    Args:
      folder: where the files are.
      vocab_size: of config.json; ids no token has are never drawn.
      end_id: of config.json; that of `<|endoftext|>` if None.
    Raises:
      UserError: there is none, it is not GPT-2's kind, it is damaged, or its files do not fit.
    """
    if (folder / OWN_FOLDER).is_dir():
        own = load_tokenizer(folder / OWN_FOLDER)
        if own.vocab_size != vocab_size:
            raise UserError(
                f"{folder / OWN_FOLDER}: has {own.vocab_size} tokens; should have {vocab_size}, as "
                "config.json says"
            )
        return own
    settings = _object(folder / SETTINGS_FILE) if (folder / SETTINGS_FILE).is_file() else {}
    if settings.get("add_prefix_space"):
        raise UserError(
            f"{folder / SETTINGS_FILE}: add_prefix_space = true: should be false, as in GPT-2"
        )
    described = _object(folder / TOKENIZER_FILE) if (folder / TOKENIZER_FILE).is_file() else {}
    special = _special(settings, described)
    for names in PAIRS:
        if all((folder / name).is_file() for name in names):
            encoder, merges = (read_file(folder / name) for name in names)
            where = (str(folder / names[0]), str(folder / names[1]))
            return GPT2Tokenizer.from_files(encoder, merges, where, special, end_id, vocab_size)
    if not described:
        raise UserError(
            f"{folder}: holds no tokenizer; should hold vocab.json and merges.txt, or {TOKENIZER_FILE}"
        )
    path = folder / TOKENIZER_FILE
    _check_pipeline(path, described)
    try:
        tokens = {str(token): int(i) for token, i in described["model"]["vocab"].items()}
        pairs = [
            tuple(pair.split(" ") if isinstance(pair, str) else pair)
            for pair in described["model"]["merges"]
        ]
        merges_read = [(str(a), str(b)) for a, b in pairs]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{path}: damaged; should hold vocab and merges of a BPE model") from None
    return GPT2Tokenizer.from_tables(
        tokens, merges_read, (str(path), str(path)), special, end_id, vocab_size
    )


def _special(settings: dict[str, Any], described: dict[str, Any]) -> dict[str, int]:
    """Special tokens → ids, wherever they are named."""
    try:
        decoder = settings.get("added_tokens_decoder") or {}
        special = {token["content"]: int(i) for i, token in decoder.items()}
        return special | {t["content"]: t["id"] for t in described.get("added_tokens") or []}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _check_pipeline(path: Path, described: dict[str, Any]) -> None:
    """Refuses a tokenizer.json that does not do what GPT-2's does."""

    def part(name: str) -> dict[str, Any]:
        found = described.get(name)
        return found if isinstance(found, dict) else {}

    model, pre_tokenizer = part("model"), part("pre_tokenizer")
    for what, found, wanted in (
        ("model.type", model.get("type"), "BPE"),
        ("model.byte_fallback", bool(model.get("byte_fallback")), False),
        ("model.ignore_merges", bool(model.get("ignore_merges")), False),
        ("normalizer", part("normalizer").get("type"), None),
        ("pre_tokenizer.type", pre_tokenizer.get("type"), "ByteLevel"),
        ("pre_tokenizer.add_prefix_space", bool(pre_tokenizer.get("add_prefix_space")), False),
        ("pre_tokenizer.use_regex", pre_tokenizer.get("use_regex", True), True),
    ):
        if found != wanted:
            raise UserError(
                f"{path}: {what} = {json.dumps(found)}: should be {json.dumps(wanted)}, as in GPT-2"
            )


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_file(path))
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: should be a JSON object")
    return found
