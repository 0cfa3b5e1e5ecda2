"""Token ids on disk: built once for a text and its settings, then only mapped into memory.

A store is a folder `tokens/KEY` in the cache folder: `train.bin` and `val.bin` (ids, uint16, or
uint32 for a vocabulary of more than 65,535), `counts.npy`, `tokenizer/` and `meta.json`. Each part
is `<end>`, then each document's ids followed by `<end>`: n + 1 ids, n targets, every token once. Of
pairs, every sentence is a document, each source before its target.
"""

import errno
import hashlib
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from minigpt.config import DataConfig, TokenizerConfig
from minigpt.corpus.documents import Documents, Piece, ingest
from minigpt.corpus.pair_files import PairFiles
from minigpt.corpus.sources import Report, Source, open_source
from minigpt.corpus.split import split, split_pairs
from minigpt.corpus.text_files import TextFiles
from minigpt.corpus.vocabulary import published_tokenizer
from minigpt.errors import UserError
from minigpt.storage.atomic import scratch_folder
from minigpt.storage.cache import cache_folder
from minigpt.storage.files import fsync, fsync_all, sha256_of
from minigpt.tokenizers import Tokenizer, learn_tokenizer, load_tokenizer

FORMAT_VERSION = 3
# More text teaches a tokenizer little, and byte_pair keeps what it learns from in memory.
LEARN_BYTES = {"word": 64_000_000, "character": 64_000_000, "byte_pair": 16_000_000}
_LEARN_PIECE_BYTES = 64_000
_ENCODE_CHARACTERS = 4_000_000
_ENCODE_TEXTS = 50_000
_SECONDS_BETWEEN_REPORTS = 15
_SUMMED = ("train.bin", "val.bin", "counts.npy")


@dataclass(frozen=True)
class Part:
    """One side of the split.

    `ids` is uint16 or uint32[n + 1], memory-mapped; `bytes` counts the UTF-8 bytes of the original
    text, without end tokens; `unknown_tokens` counts the targets that are the unknown token.
    """

    ids: np.ndarray
    documents: int
    bytes: int
    unknown_tokens: int

    @property
    def tokens(self) -> int:
        """n, the targets: every token of the part, end tokens included."""
        return len(self.ids) - 1


@dataclass(frozen=True)
class Corpus:
    """Token ids of both sides of the split, with the tokenizer learned from the training side.

    `token_counts` is int64[V], how often each token is a target in training. `fingerprint` stands
    for the text and all settings that decide the ids.
    """

    train: Part
    val: Part
    tokenizer: Tokenizer
    token_counts: np.ndarray
    fingerprint: str
    from_cache: bool
    path: Path


@dataclass(frozen=True)
class _Written:
    """What a file of ids holds, as in meta.json."""

    tokens: int
    documents: int
    bytes: int
    unknown_tokens: int


def open_corpus(
    data: DataConfig,
    tokenizer: TokenizerConfig,
    report: Report = lambda line: None,
    given: Tokenizer | None = None,
) -> Corpus:
    """The token ids of a text, from the cache folder, made first where they are not there yet.

    Args:
      data: where the text comes from.
      tokenizer: what is to be learned from the text, or which published vocabulary to take.
      report: gets a line about everything that takes time.
      given: a tokenizer that is there already, to use in place of the setting's.
    Raises:
      UserError: with everything that is wrong with the text; the store cannot be written.
    """
    try:
        source = open_source(data, report)
        if given is None and tokenizer.kind == "gpt2":
            given = published_tokenizer(tokenizer, report)
        fingerprint = source.fingerprint()
        settings = _settings(fingerprint, data, tokenizer, given)
        key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        folder = cache_folder() / "tokens" / key
        corpus = _open_store(folder)
        if corpus is None:
            if folder.exists():
                report(f"{folder} is damaged: making it again")
            corpus = _make_store(source, settings, folder, data, tokenizer, given, report)
    except OSError as error:
        raise UserError(
            f"{error.filename or cache_folder()}: {error.strerror or error}"
            " (MINIGPT_CACHE can name another folder for what is kept)"
        ) from error
    if given is None and corpus.tokenizer.vocab_size < tokenizer.vocab_size:
        report(
            f"the text supports only {corpus.tokenizer.vocab_size:,} of"
            f" {tokenizer.vocab_size:,} vocabulary entries"
        )
    return corpus


def read_texts(paths: Sequence[str | Path], separator: str | None = None) -> Documents:
    """The documents of the user's files, by the rules of `data.source = "files"`.

    Raises:
      UserError: with everything that is wrong with the files, one line each; there is no text.
    """
    documents = ingest(TextFiles(paths, separator).pieces())
    if not len(documents):
        raise UserError(f"{', '.join(map(str, paths))}: nothing but white space; should hold text")
    return documents


def read_pairs(paths: Sequence[str | Path], report: Report = lambda line: None) -> Documents:
    """The sentences of the user's pair files, sources and targets in turn.

    Raises:
      UserError: with everything that is wrong with the files, one line each.
    """
    return ingest(PairFiles(paths, report).pieces())


def encode_texts(texts: Documents | Iterable[str], tokenizer: Tokenizer) -> Part:
    """Documents, whole ones, as a part of a corpus; its ids are in a nameless temporary file."""
    if not isinstance(texts, Documents):
        texts = ingest(Piece(text.encode(), True) for text in texts)
    with tempfile.TemporaryFile() as file:
        written, _ = _write_ids(file, texts, tokenizer)
        file.flush()
        return _part(file, _dtype(tokenizer), written)


def _settings(
    fingerprint: str, data: DataConfig, tokenizer: TokenizerConfig, given: Tokenizer | None
) -> dict[str, Any]:
    """All that decides what is in a store."""
    return {
        "format": FORMAT_VERSION,
        "source": fingerprint,
        "document_separator": data.document_separator,
        "val_fraction": data.val_fraction,
        # Pairs are split by another rule.
        "pairs": data.source == "pairs" and (data.val_pairs or True),
        "tokenizer": given.fingerprint() if given else tokenizer.model_dump(exclude_none=True),
    }


def _make_store(
    source: Source,
    settings: dict[str, Any],
    folder: Path,
    data: DataConfig,
    tokenizer: TokenizerConfig,
    given: Tokenizer | None,
    report: Report,
) -> Corpus:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder.parent) as scratch:
        report("reading the text")
        documents = ingest(source.pieces(), scratch)
        if source.fingerprint() != settings["source"]:
            raise UserError("the text changed while it was read; start again")
        if not len(documents):
            what = ", ".join(data.paths) or f"data.source = {data.source!r}"
            raise UserError(f"{what}: nothing but white space; should hold text")
        if data.source == "pairs":
            parts = split_pairs(documents, data.val_fraction, data.val_pairs)
        else:
            parts = split(documents, data.val_fraction)
        _write_store(scratch, parts, settings, tokenizer, given, report)
        # Opened before it has its name: what another process does there then does not matter.
        corpus = _open_store(scratch)
        if corpus is None:
            raise RuntimeError(f"{scratch}: a new token store cannot be read back")
        _publish(scratch, folder)
    return replace(corpus, fingerprint=folder.name, from_cache=False, path=folder)


def _write_store(
    folder: Path,
    parts: tuple[Documents, Documents],
    settings: dict[str, Any],
    config: TokenizerConfig,
    given: Tokenizer | None,
    report: Report,
) -> None:
    """Fills `folder`; every byte is on the disk at the end."""
    train, val = parts
    tokenizer = given or _learn(train, config, report)
    tokenizer.save(folder / "tokenizer")

    report(f"writing the tokens of {_megabytes(train.bytes + val.bytes)}")
    meta: dict[str, Any] = {"settings": settings, "tokenizer": tokenizer.fingerprint()}
    for name, part in (("train", train), ("val", val)):
        with open(folder / f"{name}.bin", "wb") as file:
            written, counts = _write_ids(file, part, tokenizer, report)
        meta[name] = asdict(written)
        if name == "train":
            np.save(folder / "counts.npy", counts)
    report(f"wrote {meta['train']['tokens'] + meta['val']['tokens']:,} tokens")
    meta["sha256"] = {name: sha256_of(folder / name) for name in _SUMMED}
    (folder / "meta.json").write_text(json.dumps(meta, indent=2), encoding="utf-8")
    fsync_all(folder)


def _learn(train: Documents, config: TokenizerConfig, report: Report) -> Tokenizer:
    limit = LEARN_BYTES[config.kind]
    learned = min(train.bytes, limit)
    report(
        f"learning the {config.kind} tokenizer from {_megabytes(learned)}"
        + (f", an even sample of {_megabytes(train.bytes)}" if learned < train.bytes else "")
    )
    return learn_tokenizer(even_sample(train, limit), config)


def even_sample(documents: Documents, limit: int) -> Iterator[str]:
    """Pieces spread evenly over the documents, `limit` bytes at most; all if that is enough."""
    share = limit / documents.bytes if documents.bytes > limit else 1.0
    seen = kept = 0
    for text, _ in documents.pieces(_LEARN_PIECE_BYTES):
        size = len(text.encode())
        seen += size
        if kept + size <= seen * share:
            kept += size
            yield text


def _write_ids(
    file: IO[bytes], documents: Documents, tokenizer: Tokenizer, report: Report = lambda line: None
) -> tuple[_Written, np.ndarray]:
    """Writes a part; returns what it holds and how often each token is a target, int64[V]."""
    dtype = _dtype(tokenizer)
    end = np.array([tokenizer.end_id], np.int32)
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    done, last_report = 0, time.monotonic()
    file.write(end.astype(dtype).tobytes())
    for texts, ends in _groups(documents.pieces()):
        rows = []
        for ids, ends_document in zip(tokenizer.encode_many(texts), ends, strict=True):
            rows += [ids, end] if ends_document else [ids]
        block = np.concatenate(rows)
        counts += np.bincount(block, minlength=len(counts))
        file.write(block.astype(dtype).tobytes())
        done += sum(len(text.encode()) for text in texts)
        if time.monotonic() - last_report > _SECONDS_BETWEEN_REPORTS:
            last_report = time.monotonic()
            report(f"written so far: {_megabytes(done)} of {_megabytes(documents.bytes)}")
    unknown = 0 if tokenizer.unknown_id is None else int(counts[tokenizer.unknown_id])
    return _Written(int(counts.sum()), len(documents), documents.bytes, unknown), counts


def _groups(pieces: Iterable[tuple[str, bool]]) -> Iterator[tuple[list[str], list[bool]]]:
    """Pieces with their ends, several at a time: enough work for all cores, little memory."""
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


def _publish(built: Path, folder: Path) -> None:
    """Renames a finished store to its place, unless another process has put a sound one there."""
    while True:
        try:
            built.rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            if _open_store(folder) is not None:
                return
            # Another process may be putting the damaged one aside too.
            with scratch_folder(folder.parent) as aside, suppress(FileNotFoundError):
                folder.rename(aside / "damaged")
        else:
            fsync(folder.parent)
            return


def _open_store(folder: Path) -> Corpus | None:
    """The store in `folder`; None if there is none or it is damaged."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        tokenizer = load_tokenizer(folder / "tokenizer")
        if any(sha256_of(folder / name) != meta["sha256"][name] for name in _SUMMED):
            return None
        counts = np.load(folder / "counts.npy")
        sound = tokenizer.fingerprint() == meta["tokenizer"] and (
            counts.shape == (tokenizer.vocab_size,) and counts.sum() == meta["train"]["tokens"]
        )
        parts = []
        for name in ("train", "val"):
            with open(folder / f"{name}.bin", "rb") as file:
                parts.append(_part(file, _dtype(tokenizer), _Written(**meta[name])))
    except (OSError, ValueError, KeyError, TypeError, UserError):
        return None
    if not sound:
        return None
    train, val = parts
    return Corpus(train, val, tokenizer, counts, folder.name, from_cache=True, path=folder)


def _part(file: IO[bytes], dtype: type, written: _Written) -> Part:
    """Maps a file of ids; ValueError if its size is not as it was written."""
    ids: np.ndarray = np.memmap(file, dtype, mode="r")
    if len(ids) != written.tokens + 1:
        raise ValueError(f"{len(ids)} ids; should be {written.tokens + 1}")
    return Part(ids, written.documents, written.bytes, written.unknown_tokens)


def _dtype(tokenizer: Tokenizer) -> type:
    return np.uint16 if tokenizer.vocab_size <= 65535 else np.uint32


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
