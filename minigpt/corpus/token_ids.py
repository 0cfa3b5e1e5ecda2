"""Token ids in memory-mapped files: those of one side of the split, and those that a user gives.

A part is `<end>`, then each document's ids followed by `<end>`: n + 1 ids, n targets, every token once.
In a corpus of pairs every sentence is a document, each source before its target. Given ids are in nanoGPT's
train.bin and val.bin, or in .npy files of NumPy (docs/token-ids.md).
"""

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib.format import open_memmap

from minigpt.config import GivenConfig, IdsConfig, TokenizerConfig
from minigpt.corpus.documents import Documents, Piece, format_size, ingest
from minigpt.errors import UserError, gathering
from minigpt.notices import LOGGER
from minigpt.storage.files import sha256_of
from minigpt.tokenizers.base import Tokenizer, in_groups

# Bytes that are encoded at a time: enough work for all cores, little memory. A string has others, too.
GROUP_BYTES, _STRING_BYTES = 4_000_000, 80
_SECONDS_BETWEEN_MESSAGES = 15
SUFFIXES = (".bin", ".npy")
META_FILE = "meta.pkl"

Encode = Callable[[list[str]], list[np.ndarray]]
# Ids that are given, integers[n] each, memory-mapped.
Ids = list[np.ndarray]


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
    """Returns whole documents as a part; its ids are in an unnamed temporary file.

    `encode` encodes several texts; None: `tokenizer.encode_many`.
    """
    if not isinstance(texts, Documents):
        texts = ingest(Piece(text.encode(), True) for text in texts)
    with tempfile.TemporaryFile() as file:
        sizes, _ = write_ids(file, texts, tokenizer, encode)
        return map_ids(file, tokenizer, **sizes)


def decode_documents(ids: np.ndarray, tokenizer: Tokenizer) -> Iterator[str]:
    """Yields the texts of documents, integers[n], separated by end tokens. The last one may have none."""
    start = 0
    for end in [*np.flatnonzero(ids == tokenizer.end_id), len(ids)]:
        if end > start:
            yield tokenizer.decode(ids[start:end])
        start = end + 1


def write_ids(
    file: IO[bytes], texts: Documents | Ids, tokenizer: Tokenizer, encode: Encode | None = None
) -> tuple[dict[str, int], np.ndarray]:
    """Writes documents, or their ids, as a part; `encode` is that of `encode_texts`.

    Returns:
      the part's sizes, as a token store records them, and how often each token is a target, int64[V].
    """
    counts, dtype = np.zeros(tokenizer.vocab_size, np.int64), _ids_dtype(tokenizer)
    file.write(np.array([tokenizer.end_id], dtype).tobytes())
    if isinstance(texts, Documents):
        documents, size, produced = len(texts), texts.bytes, _encoded(texts, tokenizer, encode)
    else:
        documents, size, produced = None, 0, blocks(texts)
    for block in produced:
        counts += np.bincount(block.astype(dtype), minlength=len(counts))
        file.write(block.astype(dtype).tobytes())
    file.flush()
    if documents is None:
        documents, separator = max(1, int(counts[tokenizer.end_id])), len(tokenizer.separator)
        lengths = [len(piece) and len(piece) + separator for piece in tokenizer.pieces]
        # A document has one separator less than names.
        size = max(0, int(counts @ np.array(lengths)) - separator * documents)
    unknown = 0 if tokenizer.unknown_id is None else int(counts[tokenizer.unknown_id])
    sizes = {"documents": documents, "bytes": size, "unknown_tokens": unknown}
    return {"tokens": int(counts.sum())} | sizes, counts


def blocks(arrays: Ids) -> Iterator[np.ndarray]:
    """Yields given ids in blocks."""
    for array in arrays:
        for start in range(0, len(array), GROUP_BYTES):
            yield np.asarray(array[start : start + GROUP_BYTES])


def _encoded(
    documents: Documents, tokenizer: Tokenizer, encode: Encode | None
) -> Iterator[np.ndarray]:
    """Yields the ids of documents and their end tokens in blocks; logs how much was read."""
    end, encode = np.array([tokenizer.end_id], np.int32), encode or tokenizer.encode_many
    last_message, done = time.monotonic(), 0
    spans = documents.piece_spans()
    for group in in_groups(spans, GROUP_BYTES, lambda span: span[1] - span[0] + _STRING_BYTES):
        texts = [documents.text[start:stop].decode() for start, stop, _ in group]
        ids = zip(encode(texts), group, strict=True)
        yield np.concatenate([part for row, (*_, ends) in ids for part in (row, end)[: 1 + ends]])
        done += sum(stop - start for start, stop, _ in group)
        if time.monotonic() - last_message > _SECONDS_BETWEEN_MESSAGES:
            last_message = time.monotonic()
            LOGGER.info("tokenized %s of %s", format_size(done), format_size(documents.bytes))


def map_ids(file: IO[bytes], tokenizer: Tokenizer, tokens: int, **sizes: Any) -> Part:
    """Maps the ids of a part into memory.

    Raises:
      ValueError: the file does not have the recorded size.
    """
    ids = np.memmap(file, _ids_dtype(tokenizer), mode="r")
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


def _ids_dtype(tokenizer: Tokenizer) -> type:
    # uint16 if all ids fit.
    return np.uint16 if tokenizer.vocab_size <= 65535 else np.uint32


class IdFiles:
    """The files of token ids that `data.paths` names, and those of its folders.

    Args:
      paths: files and folders.
      has_train: whether some files should be for training.
    Attributes:
      problems: a line for each file that cannot be used.
      train, val: path → integers[n], memory-mapped. Names of files for validation begin with "val".
    """

    def __init__(self, paths: Sequence[str], has_train: bool = True) -> None:
        self.problems: list[str] = []
        self.train: dict[Path, np.ndarray] = {}
        self.val: dict[Path, np.ndarray] = {}
        for path in map(Path, paths):
            for file in sorted(p for p in path.glob("*") if p.suffix in SUFFIXES) or [path]:
                with gathering(self.problems):
                    (self.val if file.name.startswith("val") else self.train)[file] = _open(file)
        if has_train and not self.problems and not self.train:
            self.problems.append(f"{', '.join(paths)}: has no ids for training")

    def fingerprint(self) -> str:
        """Returns a hash of the content of the files."""
        described = [[sha256_of(path) for path in side] for side in (self.train, self.val)]
        return hashlib.sha256(repr(described).encode()).hexdigest()

    def check_ids(self, tokenizer: Tokenizer) -> list[str]:
        """Returns a line for each file with ids that are negative, or outside the vocabulary."""
        # Tokens that a list of names does not have are not given.
        size = len(getattr(tokenizer, "names", tokenizer.pieces))
        problems = []
        for path, array in (self.train | self.val).items():
            found = [int(i) for ids in blocks([array]) for i in (ids.min(), ids.max())]
            if min(found) < 0 or max(found) >= size:
                problem = f"has ids from {min(found):,} to {max(found):,}"
                problems.append(f"{path}: {problem}; should be from 0 to {size - 1:,}")
        return problems

    def split(self, val_fraction: float, tokenizer: Tokenizer) -> tuple[Ids, Ids]:
        """Returns the ids for training and validation: without files for it, the last ids."""
        if problems := self.check_ids(tokenizer):
            raise UserError(*problems)
        train, sizes = [*self.train.values()], [len(ids) for ids in self.train.values()]
        if self.val:
            return train, [*self.val.values()]
        left = round(sum(sizes) * (1 - val_fraction))
        if not 0 < left < sum(sizes):
            raise UserError(f"data.val_fraction = {val_fraction}: {sum(sizes)} ids are too few")
        cuts = np.clip(left - np.cumsum([0, *sizes[:-1]]), 0, sizes).tolist()
        cut = list(zip(train, cuts, strict=True))
        return [ids[:end] for ids, end in cut], [ids[end:] for ids, end in cut]


def _open(path: Path) -> np.ndarray:
    """Maps the ids of a file into memory; a `UserError` if it holds none."""
    try:
        is_npy = path.suffix == ".npy"
        ids = open_memmap(path, mode="r") if is_npy else np.memmap(path, "<u2", mode="r")
        is_row = ids.ndim == 1 and ids.dtype.kind in "iu" and len(ids)
        if path.suffix not in SUFFIXES or not is_row:
            raise ValueError("not one row of integers in a file of the kind .bin or .npy")
    except (OSError, ValueError, EOFError) as error:
        problem = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: should contain token ids: {problem}") from None
    return ids


def tokenizer_of_ids(data: IdsConfig, config: TokenizerConfig) -> TokenizerConfig:
    """Returns the settings of the tokenizer of given ids: those of the user, or nanoGPT's meta.pkl.

    Raises:
      UserError: there is no meta.pkl, or the tokenizer would be learned from text.
    """
    if isinstance(config, GivenConfig) or config.kind == "gpt2":
        return config
    for path in map(Path, data.paths):
        meta = (path if path.is_dir() else path.parent) / META_FILE
        if meta.is_file() and "kind" not in config.model_fields_set:
            return GivenConfig(kind="listed", path=str(meta))
    kinds = "'gpt2', 'sentencepiece', 'huggingface', 'listed' or 'run'"
    problem = f"tokenizer.kind = {config.kind!r}: should be {kinds} if there is no {META_FILE}"
    raise UserError(f"{', '.join(data.paths)}: {problem}")


def read_ids(paths: Sequence[str], tokenizer: Tokenizer) -> Part:
    """Returns the ids of files as one part; raises UserError with the problems of all files."""
    files = IdFiles(paths, has_train=False)
    if problems := files.problems + files.check_ids(tokenizer):
        raise UserError(*problems)
    with tempfile.TemporaryFile() as file:
        sizes, _ = write_ids(file, [*files.train.values(), *files.val.values()], tokenizer)
        return map_ids(file, tokenizer, **sizes)
