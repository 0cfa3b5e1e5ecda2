"""The files of a token store: written once, checked by checksum, memory-mapped.

A store is a folder with `train.bin` and `val.bin` (see `token_ids`; uint16, or uint32 for a vocabulary of
more than 65,535 entries), `counts.npy`, `tokenizer/` and `meta.json`.
"""

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.corpus.documents import Documents, format_size
from minigpt.corpus.shards import write_sharded_ids
from minigpt.corpus.token_ids import Part, PartSizes, map_ids, part_sizes, write_ids
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
      fingerprint: hash of the text and of all settings that determine the ids.
      from_cache: whether the store existed.
      path: the store.
    """

    train: Part
    val: Part
    tokenizer: Tokenizer
    token_counts: np.ndarray
    duplicates: int
    fingerprint: str
    from_cache: bool
    path: Path


def write_store(
    folder: Path,
    train: Documents,
    val: Documents,
    tokenizer: Tokenizer,
    meta: dict[str, Any],
    shard_bytes: int,
) -> None:
    """Writes the files of a store.

    Args:
      folder: empty, or with the files of a call that was interrupted.
      train, val: the documents of both sides.
      tokenizer: encodes them.
      meta: additional entries of `meta.json`.
      shard_bytes: a side with more bytes of text is tokenized by several processes. Their files, in
        `folder/shards-SIDE`, can be removed afterwards.
    """
    tokenizer.save(folder / "tokenizer")
    logger.info("tokenizing %s", format_size(train.bytes + val.bytes))
    meta = meta | {"tokenizer": tokenizer.fingerprint()}
    for name, part in (("train", train), ("val", val)):
        with open(folder / f"{name}.bin", "wb") as file:
            if part.bytes > shard_bytes:
                shards = folder / f"shards-{name}"
                counts = write_sharded_ids(file, shards, part, tokenizer, shard_bytes)
                sizes = part_sizes(part, tokenizer, counts)
            else:
                sizes, counts = write_ids(file, part, tokenizer)
        meta[name] = asdict(sizes)
        if name == "train":
            np.save(folder / "counts.npy", counts)
    logger.info(f"wrote {meta['train']['tokens'] + meta['val']['tokens']:,} tokens")
    meta["sha256"] = {name: sha256_of(folder / name) for name in _CHECKSUMMED}
    replace_file(folder / "meta.json", json.dumps(meta, indent=2).encode())


def saved_tokenizer(folder: Path) -> Tokenizer | None:
    """Returns the tokenizer of an unfinished store; None if there is none."""
    try:
        return load_tokenizer(folder / "tokenizer")
    except (OSError, UserError):
        return None


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
        for side in ("train", "val"):
            with open(folder / f"{side}.bin", "rb") as file:
                parts.append(map_ids(file, tokenizer, PartSizes(**meta[side])))
        duplicates = int(meta["duplicates"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UserError):
        return None
    if not intact:
        return None
    train, val = parts
    return Corpus(
        train, val, tokenizer, counts, duplicates, folder.name, from_cache=True, path=folder
    )
