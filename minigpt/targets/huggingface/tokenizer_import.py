"""Reading the tokenizer of a folder: `tokenizer.json`, or `vocab.json` and `merges.txt`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minigpt.errors import UserError
from minigpt.targets.huggingface.architecture import read_json_object
from minigpt.targets.huggingface.chat_template import with_template
from minigpt.tokenizers import Tokenizer, load_tokenizer
from minigpt.tokenizers.base import read_file
from minigpt.tokenizers.gpt2 import (
    ENCODER_FILE,
    END_TOKEN,
    MERGES_FILE,
    GPT2Tokenizer,
    byte_alphabet,
    read_encoder,
    read_merges,
)
from minigpt.tokenizers.huggingface import added_tokens, bpe_tables, splitting_of
from minigpt.tokenizers.splitting import AddedToken, Splitting

PAIRS = (("vocab.json", "merges.txt"), (ENCODER_FILE, MERGES_FILE))
TOKENIZER_FILE, SETTINGS_FILE = "tokenizer.json", "tokenizer_config.json"
# Tokens that were added, with their ids, and the names of special tokens: files of transformers 4.
ADDED_FILE, SPECIAL_FILE = "added_tokens.json", "special_tokens_map.json"
# A saved tokenizer of minigpt, which is written next to tokenizer.json.
OWN_FOLDER = "minigpt_tokenizer"
# The names of the tokenizers in transformers, without "Fast" at the end.
CLASSES: dict[str, Splitting] = {"GPT2Tokenizer": "gpt2", "Qwen2Tokenizer": "qwen2"}


def read_tokenizer(
    folder: Path, vocab_size: int, end_id: int | None, default_class: str
) -> Tokenizer:
    """Reads the tokenizer of a Hugging Face folder.

    Args:
      folder: the folder.
      vocab_size: the vocabulary size in config.json. Ids without a token are never drawn.
      end_id: the id of the end token in config.json; None means that of `<|endoftext|>`.
      default_class: the class of the tokenizer, if the folder does not say it.
    Raises:
      UserError: there is no tokenizer, it is neither of GPT-2's nor of Qwen3's kind, a file is damaged, or
        its files do not match.
    """
    if (folder / OWN_FOLDER).is_dir():
        own = load_tokenizer(folder / OWN_FOLDER)
        if own.vocab_size != vocab_size:
            raise UserError(
                f"{folder / OWN_FOLDER}: has {own.vocab_size} tokens; should have {vocab_size}, as in "
                "config.json"
            )
        return own
    settings, path = _read(folder / SETTINGS_FILE), folder / TOKENIZER_FILE
    if settings.get("add_prefix_space"):
        raise UserError(
            f"{folder / SETTINGS_FILE}: add_prefix_space = true: should be false, as in GPT-2"
        )
    named = settings.get("tokenizer_class")
    of_class = CLASSES.get(str(named).removesuffix("Fast"))
    if is_described := path.is_file():
        described = read_json_object(path)
        splitting = splitting_of(path, described)
        tokens, merges = bpe_tables(path, described)
        paths = (str(path), str(path))
        added = added_tokens(path, described.get("added_tokens") or [])
    else:
        names = next((p for p in PAIRS if all((folder / n).is_file() for n in p)), None)
        if names is None:
            raise UserError(
                f"{folder}: contains no tokenizer; expected {TOKENIZER_FILE}, or vocab.json and "
                "merges.txt"
            )
        splitting = of_class or CLASSES[default_class]
        paths = (str(folder / names[0]), str(folder / names[1]))
        tokens = read_encoder(read_file(folder / names[0]), paths[0])
        merges = read_merges(read_file(folder / names[1]), paths[1])
        added = []
    # The two kinds of files look alike; the class decides. It may not contradict tokenizer.json.
    is_unknown = of_class is None and named is not None and not is_described
    if is_unknown or of_class not in (None, splitting):
        expected = " or ".join(n for n, s in CLASSES.items() if is_unknown or s == splitting)
        raise UserError(
            f"{folder / SETTINGS_FILE}: tokenizer_class = {named!r}: should be {expected}"
        )
    known = {token.content for token in added}
    added += [t for t in _named_tokens(folder, settings, tokens) if t.content not in known]
    # An added token may also be a part of words, with the same id.
    ordinary = {*byte_alphabet(), *(a + b for a, b in merges)} & tokens.keys()
    special = {token.content: token.id for token in added if token.content not in ordinary}
    for token in added:
        if token.content in ordinary and tokens[token.content] != token.id:
            raise UserError(f"{paths[0]}: {token.content!r}: has two ids, {token.id} and another")
    tokenizer = GPT2Tokenizer.from_tables(
        tokens, merges, paths, special, end_id, vocab_size, added, splitting
    )
    return with_template(tokenizer, folder, {**_read(folder / SPECIAL_FILE), **settings})


def _read(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.is_file() else {}


def _named_tokens(
    folder: Path, settings: dict[str, Any], tokens: Mapping[str, int]
) -> list[AddedToken]:
    """Returns the added tokens of the files other than tokenizer.json."""
    path, decoder = folder / SETTINGS_FILE, settings.get("added_tokens_decoder") or {}
    try:
        listed = [{**token, "id": int(i)} for i, token in decoder.items()]
    except (TypeError, ValueError, AttributeError):
        raise UserError(f"{path}: added_tokens_decoder: damaged; expected id to token") from None
    found = {token.content: token for token in added_tokens(path, listed)}
    ids = {**tokens, **_read(folder / ADDED_FILE)}
    special = _special_names(settings) | _special_names(_read(folder / SPECIAL_FILE))
    others = [name for name in _read(folder / ADDED_FILE) if name not in special]
    for name in [END_TOKEN, *sorted(special), *others]:
        if name in ids and name not in found:
            described = {"id": ids[name], "content": name, "special": name not in others}
            (found[name],) = added_tokens(folder / ADDED_FILE, [described])
    return sorted(found.values(), key=lambda token: token.id)


def _special_names(settings: dict[str, Any]) -> set[str]:
    """Returns the special tokens that a file names: strings, or objects with the entry `content`."""
    values = []
    for key, value in settings.items():
        if key.endswith("_token"):
            values.append(value)
        elif key in ("additional_special_tokens", "extra_special_tokens"):
            values += list(value.values() if isinstance(value, dict) else value or [])
    named = [value.get("content") if isinstance(value, dict) else value for value in values]
    return {name for name in named if isinstance(name, str)}
