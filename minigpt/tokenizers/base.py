"""The interface of all tokenizers, and their common code: encoding on all cores, and saving."""

import abc
import copy
import hashlib
import importlib
import json
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from minigpt.errors import UserError, as_path
from minigpt.storage import files
from minigpt.storage.atomic import replace_file
from minigpt.tokenizers.chat_format import ChatFormat, role_format
from minigpt.tokenizers.vocabulary import Vocabulary

STATE_FILE = "tokenizer.json"
GROUP_SIZE = 1 << 20  # characters that one core encodes at a time
PART_SIZE = 1 << 14  # characters after which a text is cut; sentencepiece is fastest on short texts
T = TypeVar("T")


class Tokenizer(Vocabulary):
    """Maps text to token ids and back, with a fixed vocabulary. Does not use TensorFlow.

    A subclass defines `kind`, the attributes `end_id` and `unknown_id`, and the abstract methods.
    `tokenizers.graph.graph_of` returns the same tokenizer in TensorFlow operations.

    Attributes:
      format: the number of the format of `tokenizer.json`. If a kind changes what it learns or how it
        encodes, its new class has the next number.
      lowercase: whether text is lower-cased before encoding.
      lossless: whether `decode(encode(x)) == x` for every x without unknown tokens.
      cut_after: a long text is cut at the end of a match of this pattern. The ids of the parts, in
        order, are the ids of the text.
      max_learn_bytes: if a text is longer, its vocabulary is learned from a sample of this size. More
        text hardly improves a vocabulary.
    """

    kind: ClassVar[str]
    format: ClassVar[int] = 1
    cut_after: ClassVar[re.Pattern[str]] = re.compile("\n")
    max_learn_bytes: ClassVar[int] = 64_000_000

    def __init__(self, pieces: Sequence[bytes], lowercase: bool) -> None:
        super().__init__(pieces)
        self.lowercase = lowercase
        self.lossless = not lowercase

    @classmethod
    def learn(cls, texts: Iterable[str], *args: Any, **kwargs: Any) -> Self:
        """Learns a vocabulary from documents, read once and in order, with the settings of this kind."""
        raise UserError(
            f"tokenizer.kind = {cls.kind!r}: is read from a file, not learned from text"
        )

    def with_start(self) -> Self:
        """Returns a copy with a beginning-of-sentence token, for pairs (docs/systems.md, S5).

        It is the id 0, which learned vocabularies reserve. Other kinds stay as they are.
        """
        tokenizer = copy.copy(self)
        if 0 in self.never_sampled_ids and self.unknown_id != 0:
            tokenizer.own_start_id = 0
        return tokenizer

    def with_chat(self, chat: ChatFormat | None = None) -> Self:
        """Returns a copy that encodes dialogues; by default with an added token for each role."""
        tokenizer = copy.copy(self)
        if chat is None:
            chat = role_format(self.vocab_size, self.end_id, self.end_name)
        tokenizer.chat = chat
        added = range(self.vocab_size, self.vocab_size + len(chat.added))
        tokenizer.pieces = self.pieces + (b"",) * len(chat.added)
        tokenizer.never_sampled_ids = (*self.never_sampled_ids, *added)
        return tokenizer

    @property
    def end_name(self) -> str:
        """The name of the end token in the files of other programs."""
        return "<end>"

    def encode(self, text: str) -> np.ndarray:
        """Returns the token ids of a text, int32[T], without an end token.

        Raises:
          TypeError: `text` is not a string.
          ValueError: `text` contains half of a surrogate pair, which UTF-8 cannot represent.
        """
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encodes every text as `encode` does, on all cores."""
        cut_texts = [list(cut(text, self.cut_after)) for text in checked(texts)]
        groups = list(in_groups(chain.from_iterable(cut_texts), GROUP_SIZE, len))
        if len(groups) == 1:
            encoded = iter(self._encode_group(groups[0]))
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                encoded = chain.from_iterable(list(pool.map(self._encode_group, groups)))
        return [
            next(encoded) if len(parts) == 1 else np.concatenate(list(islice(encoded, len(parts))))
            for parts in cut_texts
        ]

    def encode_plain(self, texts: Sequence[str]) -> list[np.ndarray]:
        return self.encode_many(texts)

    @abc.abstractmethod
    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        """Returns int32[T] for every text. Runs on several threads at a time."""

    def count_unknown(self, text: str) -> int:
        """Returns the number of words or characters of a text that the vocabulary does not contain.

        They are encoded as `[UNK]`, or as bytes if there are `byte_ids`.
        """
        return 0 if self.unknown_id is None else int((self.encode(text) == self.unknown_id).sum())

    @abc.abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Returns what `_from_settings` needs, as JSON types."""

    def _files(self) -> dict[str, bytes]:
        """Returns the names and contents of additional files. Their hashes belong to `_settings`."""
        return {}

    @classmethod
    @abc.abstractmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        """Builds a tokenizer from `_settings`. KeyError, TypeError and ValueError mean damage."""

    def _state(self) -> dict[str, Any]:
        state = {"format": self.format, "kind": self.kind, "lowercase": self.lowercase}
        state |= self._settings()
        # Only vocabularies for pairs, and those for dialogues, have these.
        if self.own_start_id is not None:
            state["start_id"] = self.own_start_id
        return state if self.chat is None else {**state, "chat": asdict(self.chat)}

    def save(self, folder: str | Path) -> None:
        """Writes the files into a folder; `tokenizer.json`, the last one, has the hashes of the others."""
        folder = as_path("folder", folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.saved_files().items():
            replace_file(folder / name, data)

    def saved_files(self) -> dict[str, bytes]:
        """Returns the names and contents of the files that `save` writes."""
        # The fingerprint tells a changed byte from another vocabulary.
        state = {**self._state(), "fingerprint": self.fingerprint()}
        text = json.dumps(state, indent=1) + "\n"
        return {**self._files(), STATE_FILE: text.encode("ascii")}

    @classmethod
    def load(cls, folder: str | Path) -> "Tokenizer":
        """Reads a tokenizer that `save` wrote, of any kind.

        Raises:
          UserError: a file is missing, damaged, or was written by a newer version.
          TypeError: `folder` is not a path.
        """
        folder = as_path("folder", folder)
        path = folder / STATE_FILE
        try:
            state = json.loads(read_or_refuse(path))
            # What has not changed needs no other check.
            if state.pop("fingerprint", None) != _hash(state):
                raise ValueError("does not match its fingerprint")
            # The file of the kinds imports this one.
            kind = importlib.import_module("minigpt.tokenizers.kinds").KINDS[state["kind"]]
            if state["format"] != kind.format:
                raise ValueError(f"format = {state['format']!r}: should be {kind.format}")
            tokenizer = kind._from_settings(state, folder)
            tokenizer.own_start_id = state.get("start_id")
            if "chat" in state:
                tokenizer = tokenizer.with_chat(ChatFormat.of_state(state["chat"]))
            return tokenizer
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            problem = f"damaged ({type(error).__name__}: {error})"
            raise UserError(f"{path}: {problem}") from None

    def fingerprint(self) -> str:
        """Returns 64 hexadecimal digits, equal for tokenizers with the same behavior."""
        return _hash(self._state())


def _hash(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def read_or_refuse(path: Path) -> bytes:
    """Reads a regular file; a `UserError` if it cannot be read."""
    try:
        return files.read_file(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def read_checked_file(path: Path, sha256: str) -> bytes:
    """Reads a file whose hash `tokenizer.json` has recorded; a `UserError` if it has another one."""
    data = read_or_refuse(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UserError(f"{path}: damaged: not the file that belongs to tokenizer.json")
    return data


def cut(text: str, after: re.Pattern[str]) -> Iterator[str]:
    """Cuts a text into parts of about PART_SIZE characters, each cut at the end of a match of `after`."""
    start = 0
    while len(text) - start > PART_SIZE:
        match = after.search(text, start + PART_SIZE)
        if not match or match.end() == len(text):
            break
        yield text[start : match.end()]
        start = match.end()
    yield text[start:]


def checked(texts: Iterable[str]) -> Iterator[str]:
    """Yields the texts.

    Raises:
      TypeError: `texts` is a single string, whose characters would be texts, or has no texts.
      UnicodeEncodeError: a text contains half of a surrogate pair.
    """
    if isinstance(texts, str):
        raise TypeError(f"`texts` must be a list of strings. Received: {reprlib.repr(texts)}")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"text should be a string. Received: {reprlib.repr(text)}")
        text.encode()
        yield text


def in_groups(items: Iterable[T], limit: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Groups items, in order, into lists whose sizes sum up to about `limit`."""
    group, total = list[T](), 0
    for item in items:
        group.append(item)
        total += size(item)
        if total >= limit:
            yield group
            group, total = [], 0
    if group:
        yield group


def encode_chunks(
    texts: list[str], split: Callable[[str], list[str]], encode: Callable[[list[str]], list[bytes]]
) -> list[np.ndarray]:
    """Encodes texts chunk by chunk, each different chunk once.

    Args:
      split: returns the chunks of a text. The ids of the chunks, in order, are the ids of the text.
      encode: returns the ids of every chunk as bytes of int32[T], which are faster to join than lists.
    Returns:
      int32[T] for every text.
    """
    chunks: list[str] = []
    counts = [0]
    for text in texts:
        found = split(text)
        chunks += found
        counts.append(len(found))
    different = list(set(chunks))
    bytes_of = dict(zip(different, encode(different), strict=True))
    encoded = [bytes_of[chunk] for chunk in chunks]
    ids = np.frombuffer(bytearray().join(encoded), np.int32)
    sizes = np.fromiter(map(len, encoded), np.int64, len(encoded)) // ids.itemsize
    ends = np.concatenate([[0], np.cumsum(sizes)])[np.cumsum(counts)]
    return [ids[start:end] for start, end in pairwise(ends.tolist())]
