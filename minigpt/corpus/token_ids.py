"""Token ids of one side of the split, in a memory-mapped file.

A part is `<end>`, then each document's ids followed by `<end>`: n + 1 ids, n targets, every token once.
In a corpus of pairs every sentence is a document, each source before its target.
"""

import logging
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np

from minigpt.corpus.documents import Documents, Piece, format_size, ingest
from minigpt.tokenizers import Tokenizer

_ENCODE_CHARACTERS = 4_000_000
_ENCODE_TEXTS = 50_000
_SECONDS_BETWEEN_MESSAGES = 15

logger = logging.getLogger(__name__)


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


@dataclass(frozen=True)
class PartSizes:
    """The sizes of a file of ids, as a token store records them; see `Part`."""

    tokens: int
    documents: int
    bytes: int
    unknown_tokens: int


def encode_texts(texts: Documents | Iterable[str], tokenizer: Tokenizer) -> Part:
    """Encodes whole documents as a part; its ids are in an unnamed temporary file."""
    if not isinstance(texts, Documents):
        texts = ingest(Piece(text.encode(), True) for text in texts)
    with tempfile.TemporaryFile() as file:
        sizes, _ = write_ids(file, texts, tokenizer)
        file.flush()
        return map_ids(file, tokenizer, sizes)


def write_ids(
    file: IO[bytes], documents: Documents, tokenizer: Tokenizer
) -> tuple[PartSizes, np.ndarray]:
    """Writes the ids of documents.

    Returns:
      the part's sizes, and how often each token is a target, int64[V].
    """
    dtype = _dtype(tokenizer)
    end = np.array([tokenizer.end_id], np.int32)
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    bytes_done, last_message = 0, time.monotonic()
    file.write(end.astype(dtype).tobytes())
    for texts, ends in _groups(documents.pieces()):
        rows = []
        for ids, ends_document in zip(tokenizer.encode_many(texts), ends, strict=True):
            rows += [ids, end] if ends_document else [ids]
        block = np.concatenate(rows)
        counts += np.bincount(block, minlength=len(counts))
        file.write(block.astype(dtype).tobytes())
        bytes_done += sum(len(text.encode()) for text in texts)
        if time.monotonic() - last_message > _SECONDS_BETWEEN_MESSAGES:
            last_message = time.monotonic()
            done, total = format_size(bytes_done), format_size(documents.bytes)
            logger.info("tokenized %s of %s", done, total)
    unknown = 0 if tokenizer.unknown_id is None else int(counts[tokenizer.unknown_id])
    return PartSizes(int(counts.sum()), len(documents), documents.bytes, unknown), counts


def map_ids(file: IO[bytes], tokenizer: Tokenizer, sizes: PartSizes) -> Part:
    """Maps a file of ids into memory.

    Raises:
      ValueError: the file does not have the recorded size.
    """
    ids: np.ndarray = np.memmap(file, _dtype(tokenizer), mode="r")
    if len(ids) != sizes.tokens + 1:
        raise ValueError(f"{len(ids)} ids; expected {sizes.tokens + 1}")
    return Part(ids, sizes.documents, sizes.bytes, sizes.unknown_tokens)


def _dtype(tokenizer: Tokenizer) -> type:
    return np.uint16 if tokenizer.vocab_size <= 65535 else np.uint32


def _groups(pieces: Iterable[tuple[str, bool]]) -> Iterator[tuple[list[str], list[bool]]]:
    """Yields pieces and their ends in groups: enough work for all cores, little memory."""
    texts: list[str] = []
    ends: list[bool] = []
    characters = 0
    for text, ends_document in pieces:
        texts.append(text)
        ends.append(ends_document)
        characters += len(text)
        if characters >= _ENCODE_CHARACTERS or len(texts) >= _ENCODE_TEXTS:
            yield texts, ends
            texts, ends, characters = [], [], 0
    if texts:
        yield texts, ends
