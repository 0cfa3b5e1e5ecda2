"""The files of a token store: written once, checked by checksum, memory-mapped.

A store is a folder with `train.bin` and `val.bin` (see `token_ids`; uint16, or uint32 for a vocabulary of
more than 65,535 entries), `counts.npy`, `tokenizer/` and `meta.json`. The ids of a large text are in
several files, the shards, `train-00000.bin` and so on; their names are in `meta.json`.
"""

import json
import logging
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.corpus.documents import Documents, format_size
from minigpt.corpus.shard_processes import write_shards
from minigpt.corpus.shards import (
    PROGRESS,
    Shard,
    is_written,
    read_record,
    shard_count,
    shards,
)
from minigpt.corpus.token_ids import Part, PartSizes, Progress, map_ids, part_sizes, write_ids
from minigpt.environment import available_cores
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


def write_sharded_store(
    folder: Path,
    train: Documents,
    val: Documents,
    tokenizer: Tokenizer,
    meta: dict[str, Any],
    shard_bytes: int,
) -> None:
    """Writes the files of a store of a large text, in several processes, or those that are missing.

    Args:
      folder: empty, or what is left of a call that was interrupted.
      train, val, tokenizer, meta: as for `write_store`.
      shard_bytes: bytes of text in a shard.
    """
    (folder / PROGRESS).mkdir(exist_ok=True)
    tokenizer.save(folder / "tokenizer")
    sides, fingerprint = {"train": train, "val": val}, tokenizer.fingerprint()
    names: dict[str, list[str]] = {side: [] for side in sides}
    progress = Progress(train.bytes + val.bytes)

    def missing() -> Iterator[Shard]:
        for side, documents in sides.items():
            for shard in shards(side, documents, shard_count(documents.bytes, shard_bytes)):
                names[side].append(shard.name)
                if is_written(folder, shard, fingerprint):
                    progress.add(shard.bytes)
                else:
                    yield shard

    size, processes = format_size(train.bytes + val.bytes), available_cores()
    logger.info("tokenizing %s in %d processes", size, processes)
    if finished := len(list((folder / PROGRESS).glob("*.json"))):
        logger.info("%d shards are there from an earlier start", finished)
    write_shards(folder, missing(), train, tokenizer, processes, progress.add)

    meta = meta | {"tokenizer": fingerprint, "shards": names, "sha256": {}}
    for side, documents in sides.items():
        counts = np.zeros(tokenizer.vocab_size, np.int64)
        for name in names[side]:
            record, counts_of_shard = read_record(folder, name)
            counts += counts_of_shard
            meta["sha256"][name] = record.sha256
        meta[side] = asdict(part_sizes(documents, tokenizer, counts))
        if side == "train":
            np.save(folder / "counts.npy", counts)
    logger.info(f"wrote {meta['train']['tokens'] + meta['val']['tokens']:,} tokens")
    meta["sha256"]["counts.npy"] = sha256_of(folder / "counts.npy")
    replace_file(folder / "meta.json", json.dumps(meta, indent=2).encode())
    shutil.rmtree(folder / PROGRESS)


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
        files = meta.get("shards", {"train": ["train.bin"], "val": ["val.bin"]})
        names = [*files["train"], *files["val"], "counts.npy"]
        with ThreadPoolExecutor(available_cores()) as pool:
            sums = pool.map(sha256_of, [folder / name for name in names])
            if any(found != meta["sha256"][name] for name, found in zip(names, sums, strict=True)):
                return None
        counts = np.load(folder / "counts.npy")
        intact = tokenizer.fingerprint() == meta["tokenizer"] and (
            counts.shape == (tokenizer.vocab_size,) and counts.sum() == meta["train"]["tokens"]
        )
        parts = []
        for side in ("train", "val"):
            with ExitStack() as stack:
                opened = [stack.enter_context(open(folder / name, "rb")) for name in files[side]]
                parts.append(map_ids(opened, tokenizer, PartSizes(**meta[side])))
        duplicates = int(meta["duplicates"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UserError):
        return None
    if not intact:
        return None
    train, val = parts
    return Corpus(
        train, val, tokenizer, counts, duplicates, folder.name, from_cache=True, path=folder
    )
