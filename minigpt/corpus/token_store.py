"""Token stores: the token ids of a text and its settings, written once and then memory-mapped.

A store is a folder `tokens/KEY` in the cache folder, with `train.bin` and `val.bin` (see `token_ids`),
`counts.npy`, `tokenizer/` and `meta.json`. The key is a hash of the text and of all settings that determine
the ids. It is the corpus fingerprint that a run records.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from minigpt.config import DataConfig, DialoguesConfig, GPT2Config, PairsConfig
from minigpt.config.data import IdsConfig
from minigpt.config.tokenizer import GivenConfig, TokenizerConfig
from minigpt.corpus.dialogues import contents, encode_documents
from minigpt.corpus.documents import PIECE_BYTES, Documents, format_size, ingest
from minigpt.corpus.sources import Source, Text, cache_errors, open_source, read_text, source_name
from minigpt.corpus.split import count_duplicates, path_numbers, split_corpus, without_copies
from minigpt.corpus.token_ids import IdFiles, Part, map_ids, text_ends, tokenizer_of_ids, write_ids
from minigpt.errors import UserError, gathering
from minigpt.notices import LOGGER
from minigpt.storage.atomic import atomic_folder, replace_file
from minigpt.storage.downloads import download
from minigpt.storage.files import cache_folder, sha256_of
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.given import FileTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.kinds import KINDS, learn_tokenizer

FORMAT_VERSION = 3
_LEARN_PIECE_BYTES = 64_000
_CHECKSUMMED = ("train.bin", "val.bin", "counts.npy")


@dataclass(frozen=True)
class Corpus:
    """Token ids of both sides of the split, and the tokenizer learned from the training side.

    Attributes:
      token_counts: int64[V], how often each token is a target in training.
      duplicates: number of documents (pairs for `data.source = "pairs"`) equal to an earlier one.
      fingerprint: hash of the text and of all settings that determine the ids.
      from_cache: whether the store existed.
      text_ends: the ends of the texts that are read by weight, as positions in `train.ids`.
    """

    train: Part
    val: Part
    tokenizer: Tokenizer
    token_counts: np.ndarray
    duplicates: int
    fingerprint: str
    from_cache: bool
    path: Path
    text_ends: tuple[int, ...] = ()


def open_corpus(
    data: DataConfig,
    tokenizer: TokenizerConfig,
    existing: Tokenizer | None = None,
    text: Text | None = None,
) -> Corpus:
    """Returns the token ids of a text from the cache folder, and creates them if they are missing.

    Args:
      data: the source of the text.
      tokenizer: the tokenizer to learn from the text, or the published vocabulary to use.
      existing: a tokenizer to use instead of the one that the settings describe.
      text: the text, if it has been read. Its documents are not kept.
    Raises:
      UserError: with all problems of the text, or because the store cannot be written.
    """
    with cache_errors():
        store = _Store(data, tokenizer, existing, text)
        # The hash of the texts of the package is known, and their tokens may be stored.
        is_known = isinstance(store.source, Source) and store.source.sha256
        if not (text or store.ids or is_known):
            store.text = read_text(data, store.source)
        corpus = store.open()
    if text:
        text.documents = None
    if isinstance(data, PairsConfig) and corpus.tokenizer.own_start_id is None:
        # No text contains the token, so the stored ids are the same with and without it.
        corpus = replace(corpus, tokenizer=corpus.tokenizer.with_start())
    if corpus.duplicates:
        unit = "pairs" if isinstance(data, PairsConfig) else "documents"
        total = corpus.train.documents + corpus.val.documents
        remain = total // (2 if unit == "pairs" else 1) - corpus.duplicates
        setting = "" if unit == "pairs" else ' (data.duplicates = "drop")'
        said = f"{corpus.duplicates:,} {unit} are copies of others; {remain:,} would remain without them"
        LOGGER.info(said + setting)
    return corpus


def reopen_corpus(
    data: DataConfig, tokenizer: TokenizerConfig, existing: Tokenizer | None, fingerprint: str
) -> Corpus | None:
    """Returns the corpus with the fingerprint of an earlier call of `open_corpus`, which has the arguments.

    None if the text or its settings have changed. A tokenizer that was learned from pairs has no start
    token: only the run knows whether it had one.

    Raises:
      UserError: with all problems of the text, or because the store cannot be written.
    """
    with cache_errors():
        store = _Store(data, tokenizer, existing)
        # Runs of earlier versions did not split by bytes.
        store.by_bytes = store.by_bytes and store.folder.name == fingerprint
        return store.open() if store.folder.name == fingerprint else None


class _Store:
    """The store of a text and its settings; the arguments are those of `open_corpus`."""

    def __init__(
        self,
        data: DataConfig,
        config: TokenizerConfig,
        existing: Tokenizer | None,
        text: Text | None = None,
    ) -> None:
        self.data, self.config, self.text = data, config, text
        self.source: Any = text.source if text else open_source(data)
        self.ids = self.source if isinstance(self.source, IdFiles) else None
        problems = list(getattr(self.source, "problems", []))
        if existing is None:
            with gathering(problems):
                if isinstance(data, IdsConfig):
                    config = tokenizer_of_ids(data, config)
                existing = given_tokenizer(config)
            if existing and isinstance(data, PairsConfig):
                existing = existing.with_start()
        if problems:
            raise UserError(*problems)
        # These texts keep the split that their published scores are for.
        published = data.source in ("stories", "imdb", "shakespeare", "python")
        bundled = isinstance(data, DialoguesConfig) and not data.paths
        self.by_bytes = not published and not bundled
        # Whether it matters which path a document is from.
        self.has_paths = any(getattr(data, name, None) for name in ("val_paths", "weights"))
        self.is_dialogues = isinstance(data, DialoguesConfig)
        if existing and self.is_dialogues and existing.chat is None:
            existing = existing.with_chat()
        self.existing = existing

    @cached_property
    def source_fingerprint(self) -> str:
        return str(self.text.fingerprint if self.text else self.source.fingerprint())

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that determines the contents of the store."""
        data, existing = self.data, self.existing
        settings: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "source": self.source_fingerprint,
            "document_separator": getattr(data, "document_separator", None),
            "val_fraction": data.val_fraction,
            "pairs": isinstance(data, PairsConfig) and (data.val_pairs or True),
            "tokenizer": (
                existing.fingerprint() if existing else self.config.model_dump(exclude_none=True)
            ),
        }
        if self.by_bytes and not isinstance(data, IdsConfig | PairsConfig):
            settings["split"] = "bytes"
        if self.is_dialogues:
            settings["dialogues"] = getattr(data, "me", None) or True
        if getattr(data, "duplicates", "keep") == "drop":
            settings["duplicates"] = "drop"
        if self.has_paths:
            settings["val_paths"] = len(getattr(data, "val_paths", []))
            settings["path_numbers"] = self.source.path_numbers
        if not existing and (number := KINDS[self.config.kind].format) > 1:
            settings["tokenizer_format"] = number
        return settings

    @property
    def folder(self) -> Path:
        key = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()
        return cache_folder() / "tokens" / key

    def open(self) -> Corpus:
        """Returns the corpus; creates the store if it is not there."""
        from filelock import FileLock  # Not needed to read, and takes time to import.

        if found := _read(self.folder):
            return found
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        # Of processes that start together, one tokenizes a large text, and the others wait for it.
        with FileLock(cache_folder() / "locks" / self.folder.name):
            return _read(self.folder) or self._make()

    def _make(self) -> Corpus:
        """Writes the store."""
        folder, tokenizer, encode = self.folder, self.existing, None
        meta: dict[str, Any] = {"settings": self.settings, "duplicates": 0}
        if self.ids and tokenizer:
            parts: Any = self.ids.split(self.data.val_fraction, tokenizer)
        else:
            documents = without_copies(self._documents(), self.data)
            path_bytes = self.source.path_bytes if self.has_paths else []
            parts = split_corpus(documents, self.data, path_bytes, self.by_bytes)
            is_pairs = isinstance(self.data, PairsConfig)
            meta["duplicates"] = count_duplicates(documents, is_pairs)
            if getattr(self.data, "weights", None):
                numbers = path_numbers(parts[0], path_bytes)
                of_paths = np.bincount(numbers, minlength=len(path_bytes))
                own = len(getattr(self.data, "val_paths", []))
                meta["text_documents"] = of_paths[own:].tolist()
            size = documents.bytes
        if folder.exists():
            LOGGER.warning("%s was damaged and is rewritten", folder)
        if tokenizer is None:
            tokenizer = learn_from(parts[0], self.config, self.is_dialogues)
        if self.is_dialogues:
            encode = partial(encode_documents, tokenizer)
        if not self.ids:
            LOGGER.info("tokenizing %s", format_size(size))
        with atomic_folder(folder, replace=True) as unfinished:
            tokenizer.save(unfinished / "tokenizer")
            for name, part in zip(("train", "val"), parts, strict=True):
                with open(unfinished / f"{name}.bin", "wb") as file:
                    meta[name], counts = write_ids(file, part, tokenizer, encode)
                if name == "train":
                    np.save(unfinished / "counts.npy", counts)
            LOGGER.info(f"wrote {meta['train']['tokens'] + meta['val']['tokens']:,} tokens")
            meta["tokenizer"] = tokenizer.fingerprint()
            meta["sha256"] = {name: sha256_of(unfinished / name) for name in _CHECKSUMMED}
            replace_file(unfinished / "meta.json", json.dumps(meta, indent=2).encode())
            # The files are mapped first: once published, another process may replace them.
            corpus = _read(unfinished, is_new=True)
        assert corpus is not None, "A new token store cannot be read back."
        return replace(corpus, fingerprint=folder.name, from_cache=False, path=folder)

    def _documents(self) -> Documents:
        """Returns the documents; copies them to the disk if they are not in memory."""
        documents = self.text.documents if self.text else None
        if documents is None:
            documents = ingest(self.source.pieces(), self.folder.parent)
        if self.source.fingerprint() != self.source_fingerprint:
            raise UserError("the text changed while it was being read; start again")
        if not len(documents):
            raise UserError(f"{source_name(self.data)}: only white space; should contain text")
        return documents


def _read(folder: Path, is_new: bool = False) -> Corpus | None:
    """Returns the store in `folder`; None if it does not exist or, unless it is new, is damaged."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        tokenizer = Tokenizer.load(folder / "tokenizer")
        hashes = {} if is_new else meta["sha256"]
        if any(sha256_of(folder / name) != hashes[name] for name in hashes):
            return None
        counts = np.load(folder / "counts.npy")
        if tokenizer.fingerprint() != meta["tokenizer"]:
            return None
        parts = []
        for side in ("train", "val"):
            with open(folder / f"{side}.bin", "rb") as file:
                parts.append(map_ids(file, tokenizer, **meta[side]))
        duplicates = int(meta["duplicates"])
        ends = text_ends(parts[0].ids, tokenizer.end_id, meta.get("text_documents", []))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UserError):
        return None
    train, val = parts
    return Corpus(train, val, tokenizer, counts, duplicates, folder.name, True, folder, ends)


def learn_from(train: Documents, config: TokenizerConfig, dialogues: bool = False) -> Tokenizer:
    """Returns a tokenizer learned from the training documents, or from an even sample of them.

    If they are dialogues, it is learned from their messages and has tokens of the roles.
    """
    limit = KINDS[config.kind].max_learn_bytes
    sample = f", an even sample of {format_size(train.bytes)}" if limit < train.bytes else ""
    size = format_size(min(train.bytes, limit))
    LOGGER.info("learning the %s tokenizer from %s%s", config.kind, size, sample)
    sample_of = even_sample(train, limit, PIECE_BYTES if dialogues else _LEARN_PIECE_BYTES)
    tokenizer = learn_tokenizer(contents(sample_of) if dialogues else sample_of, config)
    return tokenizer.with_chat() if dialogues else tokenizer


def even_sample(
    documents: Documents, limit: int, piece_bytes: int = _LEARN_PIECE_BYTES
) -> Iterator[str]:
    """Yields pieces spread evenly over the documents, at most `limit` bytes; all pieces if they fit."""
    share = limit / documents.bytes if documents.bytes > limit else 1.0
    seen = kept = 0
    for start, stop, _ in documents.piece_spans(piece_bytes):
        size = stop - start
        seen += size
        if kept + size <= seen * share:
            kept += size
            yield documents.text[start:stop].decode()


def given_tokenizer(config: TokenizerConfig) -> Tokenizer | None:
    """Returns the tokenizer that a configuration names, downloaded if necessary.

    Returns:
      The tokenizer; None if it is learned from text.
    Raises:
      UserError: a file is unavailable or damaged, or does not have `config.vocab_size` entries.
    """
    if isinstance(config, GPT2Config):
        encoder = download(config.encoder_url, config.encoder_sha256).read_bytes()
        merges = download(config.merges_url, config.merges_sha256).read_bytes()
        name, names = config.encoder_url, (config.encoder_url, config.merges_url)
        tokenizer: Tokenizer = GPT2Tokenizer.from_files(encoder, merges, names)
    elif isinstance(config, GivenConfig):
        name, path = config.path, Path(config.path)
        if not path.exists() or not name:
            raise UserError(f"tokenizer.path = {name!r}: does not exist; should be a file or a run")
        if config.kind == "run":
            folder = path / "tokenizer"
            tokenizer = Tokenizer.load(folder if folder.is_dir() else path)
        else:
            tokenizer = cast(type[FileTokenizer], KINDS[config.kind]).from_file(path)
    else:
        return None
    if config.vocab_size not in (0, tokenizer.vocab_size):
        raise UserError(
            f"tokenizer.vocab_size = {config.vocab_size}: should be {tokenizer.vocab_size}, "
            f"the number of entries in {name}"
        )
    return tokenizer
