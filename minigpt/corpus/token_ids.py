"""Token ids of one side of the split, in memory-mapped files.

A part is `<end>`, then each document's ids followed by `<end>`: n + 1 ids, n targets, every token once.
In a corpus of pairs every sentence is a document, each source before its target.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO

import numpy as np

from minigpt.corpus.documents import Documents, Piece, format_size, ingest
from minigpt.notices import LOGGER
from minigpt.tokenizers.base import Tokenizer

# Bytes and texts that are encoded at a time: enough work for all cores, little memory.
GROUP_BYTES = 4_000_000
_GROUP_TEXTS = 50_000
# Of a group that one process of several encodes: fewer than it would divide among threads.
POOL_GROUP_BYTES = 500_000
_SECONDS_BETWEEN_MESSAGES = 15

Encode = Callable[[list[str]], list[np.ndarray]]
# Texts, and whether each of them ends a document.
Group = tuple[list[str], list[bool]]
# Yields the ids of each group, in order, as `encode_group` returns them.
Pool = Callable[[Iterator[Group]], Iterator[np.ndarray]]


@dataclass(frozen=True)
class Part:
    """One side of the split.

    Attributes:
      ids: uint16 or uint32[n + 1], memory-mapped.
      documents: number of documents.
      bytes: UTF-8 bytes of the original text, without end tokens.
      unknown_tokens: number of targets that are the unknown token.
    """

    ids: np.ndarray
    documents: int
    bytes: int
    unknown_tokens: int

    @property
    def tokens(self) -> int:
        """n, the number of targets: every token of the part, end tokens included."""
        return len(self.ids) - 1


def encode_texts(
    texts: Documents | Iterable[str], tokenizer: Tokenizer, encode: Encode | None = None
) -> Part:
    """Encodes whole documents as a part; its ids are in an unnamed temporary file.

    Args:
      texts: the documents.
      tokenizer: their tokenizer.
      encode: encodes texts; None: `tokenizer.encode_many`.
    """
    if not isinstance(texts, Documents):
        texts = ingest(Piece(text.encode(), True) for text in texts)
    with tempfile.TemporaryFile() as file:
        sizes, _ = write_ids(file, texts, tokenizer, encode)
        return map_ids(file, tokenizer, **sizes)


def decode_documents(ids: np.ndarray, tokenizer: Tokenizer) -> Iterator[str]:
    """Yields the texts of the documents of a part. The last one may have no end token.

    Args:
      ids: integers[n], documents and the end tokens between them.
      tokenizer: their tokenizer.
    """
    start = 0
    for end in [*np.flatnonzero(ids == tokenizer.end_id), len(ids)]:
        if end > start:
            yield tokenizer.decode(ids[start:end])
        start = end + 1


def write_ids(
    file: IO[bytes],
    documents: Documents,
    tokenizer: Tokenizer,
    encode: Encode | None = None,
    pool: Pool | None = None,
) -> tuple[dict[str, int], np.ndarray]:
    """Writes the ids of documents.

    Args:
      file: to write to.
      documents: the documents.
      tokenizer: their tokenizer.
      encode: encodes texts; None: `tokenizer.encode_many`.
      pool: encodes groups of texts with the tokenizer, in place of `encode`.
    Returns:
      the part's sizes, and how often each token is a target, int64[V].
    """
    encode_one = partial(encode_group, tokenizer, encode=encode)
    groups = _groups(documents, POOL_GROUP_BYTES if pool else GROUP_BYTES)
    counts = write_blocks(file, pool(groups) if pool else map(encode_one, groups), tokenizer)
    return sizes_of(counts, tokenizer, len(documents), documents.bytes), counts


def write_blocks(file: IO[bytes], blocks: Iterable[np.ndarray], tokenizer: Tokenizer) -> np.ndarray:
    """Writes the end token that is before the first document of a part, then blocks of ids.

    Returns:
      how often each token is a target, int64[V].
    """
    counts, dtype = np.zeros(tokenizer.vocab_size, np.int64), ids_dtype(tokenizer)
    file.write(np.array([tokenizer.end_id], dtype).tobytes())
    for block in blocks:
        counts += np.bincount(block.astype(dtype), minlength=len(counts))
        file.write(block.astype(dtype).tobytes())
    file.flush()
    return counts


def sizes_of(counts: np.ndarray, tokenizer: Tokenizer, documents: int, size: int) -> dict[str, int]:
    """Returns the sizes of a part, as a token store records them; see `Part`."""
    unknown = 0 if tokenizer.unknown_id is None else int(counts[tokenizer.unknown_id])
    tokens = int(counts.sum())
    return {"tokens": tokens, "documents": documents, "bytes": size, "unknown_tokens": unknown}


def encode_group(tokenizer: Tokenizer, group: Group, encode: Encode | None = None) -> np.ndarray:
    """Returns the ids of texts, int32[n], and an end token after each text that ends a document."""
    end = np.array([tokenizer.end_id], np.int32)
    rows = []
    for ids, ends_document in zip(
        (encode or tokenizer.encode_many)(group[0]), group[1], strict=True
    ):
        rows += [ids, end] if ends_document else [ids]
    return np.concatenate(rows)


def map_ids(file: IO[bytes], tokenizer: Tokenizer, tokens: int, **sizes: int) -> Part:
    """Maps the ids of a part into memory.

    Raises:
      ValueError: the file does not have the recorded size.
    """
    ids = np.memmap(file, ids_dtype(tokenizer), mode="r")
    if len(ids) != tokens + 1:
        raise ValueError(f"{len(ids)} ids; expected {tokens + 1}")
    return Part(ids, **sizes)


def text_ends(ids: np.ndarray, end_id: int, documents: Sequence[int]) -> tuple[int, ...]:
    """Returns the positions in `ids` of the last end tokens of texts, by their numbers of documents."""
    if not documents:
        return ()
    parts = range(0, len(ids), 1 << 22)
    ends = [np.flatnonzero(ids[start : start + (1 << 22)] == end_id) + start for start in parts]
    return tuple(np.concatenate(ends)[np.cumsum(documents)].tolist())


def ids_dtype(tokenizer: Tokenizer) -> type:
    """Returns the type of the ids in a file: uint16 if all of them fit, otherwise uint32."""
    return np.uint16 if tokenizer.vocab_size <= 65535 else np.uint32


def _groups(documents: Documents, group_bytes: int) -> Iterator[Group]:
    """Yields the pieces of documents in groups, and logs how much of the text was read."""
    texts: list[str] = []
    ends: list[bool] = []
    size = done = 0
    last_message = time.monotonic()
    for start, stop, ends_document in documents.piece_spans():
        texts.append(documents.text[start:stop].decode())
        ends.append(ends_document)
        size += stop - start
        if size >= group_bytes or len(texts) >= _GROUP_TEXTS:
            yield texts, ends
            done += size
            texts, ends, size = [], [], 0
        if time.monotonic() - last_message > _SECONDS_BETWEEN_MESSAGES:
            last_message = time.monotonic()
            LOGGER.info("tokenized %s of %s", format_size(done), format_size(documents.bytes))
    if texts:
        yield texts, ends
