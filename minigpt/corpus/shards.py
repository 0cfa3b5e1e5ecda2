"""The shards of a token store: which text belongs to which file of ids, and writing one of them.

A shard is written atomically and then recorded in the folder `progress`. A record counts only for the same
text, the same tokenizer and intact ids.
"""

import hashlib
import json
import mmap
from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from minigpt.corpus.documents import Documents
from minigpt.corpus.token_ids import encode_pieces, write_first_id
from minigpt.storage.atomic import atomic_file, replace_file
from minigpt.storage.files import sha256_of
from minigpt.tokenizers import Tokenizer

# Bytes of text whose ids are one file. A text up to this size is tokenized without other processes.
SHARD_BYTES = 2**25
# All shards are open at once. macOS allows a process 256 files by default.
MAX_SHARDS = 200
PROGRESS = "progress"
# Python integers need several times the memory of an array.
_PIECES_AT_ONCE = 10_000


@dataclass(frozen=True)
class Shard:
    """The text of one file of ids.

    Attributes:
      name: of the file.
      pieces: int64[P, 3], first byte and end of each piece in the text, and whether it ends a document.
      begins_part: whether the file begins with the end token that is before the first document.
    """

    name: str
    pieces: np.ndarray
    begins_part: bool

    @property
    def bytes(self) -> int:
        return int((self.pieces[:, 1] - self.pieces[:, 0]).sum())


@dataclass(frozen=True)
class ShardRecord:
    """What is recorded about a shard that is written.

    Attributes:
      key: hash of its pieces and the tokenizer.
      sha256: of its file.
    """

    key: str
    sha256: str


def shard_count(n_bytes: int, shard_bytes: int) -> int:
    """Returns into how many shards the ids of a text of this size are divided at most."""
    return max(1, min(MAX_SHARDS, -(-n_bytes // shard_bytes)))


def shards(name: str, documents: Documents, count: int) -> Iterator[Shard]:
    """Divides documents into shards of nearly equal size, at most `count`, at the ends of pieces.

    The pieces are those that are encoded in one file, so the ids of all shards in order are the same ids.
    """
    total, seen, number = documents.bytes, 0, 0
    pieces = array("q")

    def shard() -> Shard:
        file = f"{name}.bin" if count == 1 else f"{name}-{number:05d}.bin"
        return Shard(file, np.frombuffer(pieces, np.int64).reshape(-1, 3), number == 0)

    limit = -(-total // count)
    for start, stop, ends_document in documents.piece_spans():
        pieces.extend((start, stop, ends_document))
        seen += stop - start
        if seen >= limit and seen < total:
            yield shard()
            pieces, number = array("q"), number + 1
            # The next limit beyond what is seen, so that one long piece does not shift all of them.
            limit = -(-total * (seen * count // total + 1) // count)
    yield shard()


def write_shard(
    folder: Path,
    shard: Shard,
    text: mmap.mmap,
    tokenizer: Tokenizer,
    group_characters: int,
    progress: Callable[[int], object] = lambda n_bytes: None,
) -> None:
    """Writes the ids of a shard and records them.

    Args:
      folder: of the unfinished store.
      shard: what to write.
      text: the whole text.
      tokenizer: encodes it.
      group_characters: as for `encode_pieces`.
      progress: called with the number of bytes that are done, often.
    """
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    pieces = (
        (text[start:stop].decode(), bool(ends_document))
        for begin in range(0, len(shard.pieces), _PIECES_AT_ONCE)
        for start, stop, ends_document in shard.pieces[begin : begin + _PIECES_AT_ONCE].tolist()
    )
    with atomic_file(folder / shard.name) as unfinished:
        with open(unfinished, "wb") as file:
            if shard.begins_part:
                write_first_id(file, tokenizer)
            for n_bytes in encode_pieces(file, pieces, tokenizer, counts, group_characters):
                progress(n_bytes)
        sha256 = sha256_of(unfinished)
    with atomic_file(_counts_path(folder, shard.name)) as unfinished:
        np.save(unfinished, counts)
    record = ShardRecord(_key(shard, tokenizer.fingerprint()), sha256)
    replace_file(_record_path(folder, shard.name), json.dumps(asdict(record)).encode())
    if hasattr(mmap, "MADV_DONTNEED"):
        text.madvise(mmap.MADV_DONTNEED)


def is_written(folder: Path, shard: Shard, fingerprint: str) -> bool:
    """Returns whether a shard is there, intact and recorded.

    Args:
      folder: of the unfinished store.
      shard: which one.
      fingerprint: of the tokenizer.
    """
    try:
        record, _ = read_record(folder, shard.name)
        return (
            record.key == _key(shard, fingerprint)
            and sha256_of(folder / shard.name) == record.sha256
        )
    except (OSError, ValueError, TypeError, EOFError):
        return False


def read_record(folder: Path, name: str) -> tuple[ShardRecord, np.ndarray]:
    """Returns the record of a shard, and how often each token is a target in it, int64[V]."""
    record = ShardRecord(**json.loads(_record_path(folder, name).read_text()))
    return record, np.load(_counts_path(folder, name))


def _key(shard: Shard, fingerprint: str) -> str:
    return hashlib.sha256(fingerprint.encode() + shard.pieces.tobytes()).hexdigest()


def _record_path(folder: Path, name: str) -> Path:
    return folder / PROGRESS / f"{name}.json"


def _counts_path(folder: Path, name: str) -> Path:
    return folder / PROGRESS / f"{name}.npy"
