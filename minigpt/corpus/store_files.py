"""The files of a token store: written once, checked by checksum, memory-mapped.

A store is a folder with `train.bin` and `val.bin` (see `token_ids`; uint16, or uint32 for a vocabulary of
more than 65,535 entries), `counts.npy`, `tokenizer/` and `meta.json`.
"""

import json
import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.corpus.documents import Documents, format_size
from minigpt.corpus.token_ids import Part, PartSizes, map_ids, write_ids
from minigpt.errors import UserError
from minigpt.storage.atomic import replace_file
from minigpt.storage.files import sha256_of
from minigpt.tokenizers import Tokenizer, load_tokenizer

_CHECKSUMMED = ("train.bin", "val.bin", "counts.npy")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Corpus:
    """Token ids of both sides of the split, and the tokenizer learned from the training side.

    Attributes:
      train, val: the two sides.
      tokenizer: the tokenizer of the ids.
      token_counts: int64[V], how often each token is a target in training.
      duplicates: number of documents (pairs for `data.source = "pairs"`) equal to an earlier one.
      split_rules: the rules of `split` that give this split; empty in a store of minigpt 0.1.
      fingerprint: hash of the text and of all settings that determine the ids.
      from_cache: whether the store existed.
      path: the store.
    """

    train: Part
    val: Part
    tokenizer: Tokenizer
    token_counts: np.ndarray
    duplicates: int
    split_rules: tuple[int, ...]
    fingerprint: str
    from_cache: bool
    path: Path


def write_store(
    folder: Path, train: Documents, val: Documents, tokenizer: Tokenizer, meta: dict[str, Any]
) -> None:
    """Writes the files of a store.

    Args:
      folder: an empty folder.
      train, val: the documents of both sides.
      tokenizer: encodes them.
      meta: additional entries of `meta.json`.
    """
    tokenizer.save(folder / "tokenizer")
    logger.info("tokenizing %s", format_size(train.bytes + val.bytes))
    meta = meta | {"tokenizer": tokenizer.fingerprint()}
    for name, part in (("train", train), ("val", val)):
        with open(folder / f"{name}.bin", "wb") as file:
            sizes, counts = write_ids(file, part, tokenizer)
        meta[name] = asdict(sizes)
        if name == "train":
            np.save(folder / "counts.npy", counts)
    logger.info(f"wrote {meta['train']['tokens'] + meta['val']['tokens']:,} tokens")
    meta["sha256"] = {name: sha256_of(folder / name) for name in _CHECKSUMMED}
    (folder / "meta.json").write_text(json.dumps(meta, indent=2), encoding="utf-8")


def read_store(folder: Path) -> Corpus | None:
    """Returns the store in `folder`; None if it does not exist or is damaged."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        tokenizer = load_tokenizer(folder / "tokenizer")
        if any(sha256_of(folder / name) != meta["sha256"][name] for name in _CHECKSUMMED):
            return None
        counts = np.load(folder / "counts.npy")
        intact = tokenizer.fingerprint() == meta["tokenizer"] and (
            counts.shape == (tokenizer.vocab_size,) and counts.sum() == meta["train"]["tokens"]
        )
        parts = []
        for name in ("train", "val"):
            with open(folder / f"{name}.bin", "rb") as file:
                parts.append(map_ids(file, tokenizer, PartSizes(**meta[name])))
        # Stores of minigpt 0.1 have neither.
        rules, duplicates = tuple(meta.get("split_rules", ())), int(meta.get("duplicates", 0))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UserError):
        return None
    if not intact:
        return None
    train, val = parts
    return Corpus(
        train, val, tokenizer, counts, duplicates, rules, folder.name, from_cache=True, path=folder
    )


def record_split(corpus: Corpus, rules: tuple[int, ...], duplicates: int) -> Corpus:
    """Records the split rules of a store that was written without them."""
    path = corpus.path / "meta.json"
    meta = json.loads(path.read_text(encoding="utf-8"))
    meta |= {"split_rules": rules, "duplicates": duplicates}
    replace_file(path, json.dumps(meta, indent=2).encode())
    return replace(corpus, split_rules=rules, duplicates=duplicates)
