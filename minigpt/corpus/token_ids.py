"""Token ids of one side of the split, in memory-mapped files.

A part is `<end>`, then each document's ids followed by `<end>`: n + 1 ids, n targets, every token once.
In a corpus of pairs every sentence is a document, each source before its target.
"""

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np

from minigpt.corpus.documents import Documents, Piece, format_size, ingest
from minigpt.tokenizers import Tokenizer

ENCODE_CHARACTERS = 4_000_000
_ENCODE_TEXTS = 50_000
_SECONDS_BETWEEN_MESSAGES = 15

Encode = Callable[[list[str]], list[np.ndarray]]

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


def encode_texts(
    texts: Documents | Iterable[str], tokenizer: Tokenizer, encode: Encode | None = None
) -> Part:
    """Encodes whole documents as a part; its ids are in an unnamed temporary file.

    Args:
      texts: the documents.
      tokenizer: their tokenizer.
      encode: as for `encode_pieces`.
    """
    if not isinstance(texts, Documents):
        texts = ingest(Piece(text.encode(), True) for text in texts)
    with tempfile.TemporaryFile() as file:
        sizes, _ = write_ids(file, texts, tokenizer, encode)
        file.flush()
        return map_ids(file, tokenizer, sizes)


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
    file: IO[bytes], documents: Documents, tokenizer: Tokenizer, encode: Encode | None = None
) -> tuple[PartSizes, np.ndarray]:
    """Writes the ids of documents.

    Args:
      file: to write to.
      documents: the documents.
      tokenizer: their tokenizer.
      encode: as for `encode_pieces`.
    Returns:
      the part's sizes, and how often each token is a target, int64[V].
    """
    write_first_id(file, tokenizer)
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    progress = Progress(documents.bytes)
    pieces = documents.pieces()
    for bytes_done in encode_pieces(file, pieces, tokenizer, counts, ENCODE_CHARACTERS, encode):
        progress.add(bytes_done)
    return part_sizes(documents, tokenizer, counts), counts


def write_first_id(file: IO[bytes], tokenizer: Tokenizer) -> None:
    """Writes the end token that is before the first document of a part."""
    file.write(np.array([tokenizer.end_id], ids_dtype(tokenizer)).tobytes())


def encode_pieces(
    file: IO[bytes],
    pieces: Iterable[tuple[str, bool]],
    tokenizer: Tokenizer,
    counts: np.ndarray,
    group_characters: int,
    encode: Encode | None = None,
) -> Iterator[int]:
    """Writes the ids of pieces, and an end token after each piece that ends a document.

    Args:
      file: to write to.
      pieces: as `Documents.pieces` yields them.
      tokenizer: encodes them.
      counts: int64[V]; the number of occurrences of each id is added.
      group_characters: about how many characters are encoded at a time. Does not change the ids.
      encode: encodes texts; None: `tokenizer.encode_many`.
    Yields:
      the UTF-8 bytes of each group of pieces that is written.
    """
    dtype = ids_dtype(tokenizer)
    end = np.array([tokenizer.end_id], np.int32)
    encode = encode or tokenizer.encode_many
    for texts, ends in _groups(pieces, group_characters):
        rows = []
        for ids, ends_document in zip(encode(texts), ends, strict=True):
            rows += [ids, end] if ends_document else [ids]
        block = np.concatenate(rows)
        counts += np.bincount(block, minlength=len(counts))
        file.write(block.astype(dtype).tobytes())
        yield sum(len(text.encode()) for text in texts)


def part_sizes(documents: Documents, tokenizer: Tokenizer, counts: np.ndarray) -> PartSizes:
    """Returns the sizes of a part. `counts` says how often each token is a target, int64[V]."""
    unknown = 0 if tokenizer.unknown_id is None else int(counts[tokenizer.unknown_id])
    return PartSizes(int(counts.sum()), len(documents), documents.bytes, unknown)


class Progress:
    """Logs how much of a text is tokenized, at most every few seconds.

    Args:
      total: bytes of the text.
    """

    def __init__(self, total: int) -> None:
        self._done, self._total = 0, format_size(total)
        self._last_message = time.monotonic()
        self._lock = threading.Lock()

    def add(self, n_bytes: int) -> None:
        """Records that more bytes are tokenized. May be called from several threads."""
        with self._lock:
            self._done += n_bytes
            if time.monotonic() - self._last_message > _SECONDS_BETWEEN_MESSAGES:
                self._last_message = time.monotonic()
                logger.info("tokenized %s of %s", format_size(self._done), self._total)


def map_ids(file: IO[bytes], tokenizer: Tokenizer, sizes: PartSizes) -> Part:
    """Maps the ids of a part into memory.

    Raises:
      ValueError: the file does not have the recorded size.
    """
    ids = np.memmap(file, ids_dtype(tokenizer), mode="r")
    if len(ids) != sizes.tokens + 1:
        raise ValueError(f"{len(ids)} ids; expected {sizes.tokens + 1}")
    return Part(ids, sizes.documents, sizes.bytes, sizes.unknown_tokens)


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


def _groups(
    pieces: Iterable[tuple[str, bool]], group_characters: int
) -> Iterator[tuple[list[str], list[bool]]]:
    """Yields pieces and their ends in groups: enough work for all cores, little memory."""
    texts: list[str] = []
    ends: list[bool] = []
    characters = 0
    for text, ends_document in pieces:
        texts.append(text)
        ends.append(ends_document)
        characters += len(text)
        if characters >= group_characters or len(texts) >= _ENCODE_TEXTS:
            yield texts, ends
            texts, ends, characters = [], [], 0
    if texts:
        yield texts, ends
