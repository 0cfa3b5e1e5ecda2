"""The interface of all tokenizers, and what they share: decoding, encoding on all cores, saving."""

import abc
import codecs
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from minigpt.errors import UserError
from minigpt.storage.atomic import replace_file
from minigpt.tokenizers import grouping
from minigpt.tokenizers.tokenizer_file import read_state, setting, state_path

if TYPE_CHECKING:
    from minigpt.tokenizers.graph.base import GraphTokenizer


class Tokenizer(abc.ABC):
    """Maps text to token ids and back, with a fixed vocabulary. Does not use TensorFlow.

    A subclass defines `kind`, the two attributes `end_id` and `unknown_id`, `undrawable_ids`, and the
    abstract methods. `graph()` returns the same tokenizer in TensorFlow operations.

    Attributes:
      format: the number of the format of `tokenizer.json`. If a kind changes what it learns or how it
        encodes, the new class has the next number and the old class stays, for the runs that use it.
      pieces: the bytes that each id adds to decoded text; b"" for special tokens.
      separator: the bytes between two pieces of decoded text.
      end_id: the id of the end token. No text is encoded to it, not even the literal "<end>".
      unknown_id: the id of `[UNK]`; None if every text can be encoded without it.
      undrawable_ids: the ids that a sampler must never draw.
      byte_ids: the ids of bytes that the setting `vocab_size` does not count. They encode characters
        without a token of their own, which `count_unknown` counts.
      lossless: whether `decode(encode(x)) == x` for every x without unknown tokens.
      cut_after: a long text is cut at the end of a match of this pattern. The ids of the parts, in
        order, are the ids of the text.
      max_learn_bytes: if a text is longer, its vocabulary is learned from a sample of this size. More
        text hardly improves a vocabulary.
    """

    kind: ClassVar[str]
    format: ClassVar[int] = 1
    separator: ClassVar[bytes] = b""
    cut_after: ClassVar[re.Pattern[str]] = re.compile("\n")
    max_learn_bytes: ClassVar[int] = 64_000_000
    end_id: int
    unknown_id: int | None
    undrawable_ids: tuple[int, ...]
    byte_ids: tuple[int, ...] = ()

    def __init__(self, pieces: Sequence[bytes], lowercase: bool) -> None:
        self.pieces = tuple(pieces)
        self.lowercase = lowercase
        self.lossless = not lowercase

    @classmethod
    @abc.abstractmethod
    def learn(cls, texts: Iterable[str], *args: Any, **kwargs: Any) -> Self:
        """Learns a vocabulary from texts.

        Args:
          texts: documents, read once and in order.
          args, kwargs: the settings of this kind in `config.tokenizer`, without `kind`, by their names.
        """

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    def piece(self, token: int) -> str:
        """Returns a readable form of a token: its text, "[UNK]", "<end>", or bytes as "<E2 82>"."""
        if token in (self.unknown_id, self.end_id):
            return "[UNK]" if token == self.unknown_id else "<end>"
        try:
            return self._restore(self.pieces[token].decode())
        except UnicodeDecodeError:
            return f"<{self.pieces[token].hex(' ').upper()}>"

    def encode(self, text: str) -> np.ndarray:
        """Returns the token ids of a text, without an end token.

        Returns:
          int32[T].
        Raises:
          ValueError: `text` contains half of a surrogate pair, which UTF-8 cannot represent.
        """
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encodes every text as `encode` does, on all cores."""
        cut_texts = [list(grouping.cut(text, self.cut_after)) for text in texts]
        groups = list(grouping.in_groups(chain.from_iterable(cut_texts)))
        if len(groups) == 1:
            encoded = iter(self._encode_group(groups[0]))
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                encoded = chain.from_iterable(list(pool.map(self._encode_group, groups)))
        return [
            next(encoded) if len(parts) == 1 else np.concatenate(list(islice(encoded, len(parts))))
            for parts in cut_texts
        ]

    @abc.abstractmethod
    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        """Returns int32[T] for every text. Runs on several threads at a time."""

    def count_unknown(self, text: str) -> int:
        """Returns the number of words or characters of a text that the vocabulary does not contain.

        They are encoded as `[UNK]`, or as bytes if there are `byte_ids`.
        """
        return 0 if self.unknown_id is None else int((self.encode(text) == self.unknown_id).sum())

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Returns the text of any sequence of ids.

        Special tokens add nothing. An incomplete character at the end is left out, because the next
        ids may complete it. Other bytes that are not valid UTF-8 become U+FFFD.

        Raises:
          TypeError: an id is not an integer.
          ValueError: an id is outside the vocabulary.
        """
        ids = _as_integers(ids)
        outside = ids[(ids < 0) | (ids >= self.vocab_size)]
        if outside.size:
            raise ValueError(
                f"ids should be from 0 to {self.vocab_size - 1}. Received: {int(outside[0])}"
            )
        pieces = (self.pieces[i] for i in ids.tolist())
        data = self.separator.join(piece for piece in pieces if piece)
        return self._restore(codecs.getincrementaldecoder("utf-8")("replace").decode(data))

    def _restore(self, text: str) -> str:
        """Undoes the escaping of `encode`. Maps prefixes of a text to prefixes of its result."""
        return text

    def continuation(
        self, prompt_ids: Sequence[int] | np.ndarray, new_ids: Sequence[int] | np.ndarray
    ) -> str:
        """Returns the text that new ids add: decode(prompt + new) without decode(prompt)."""
        ids = np.concatenate([_as_integers(prompt_ids), _as_integers(new_ids)])
        return self.decode(ids)[len(self.decode(prompt_ids)) :]

    def graph(self) -> "GraphTokenizer":
        """Returns the same tokenizer in TensorFlow operations; always the same object.

        The first call imports TensorFlow.
        """
        return self._graph

    @functools.cached_property
    def _graph(self) -> "GraphTokenizer":
        import tensorflow as tf

        with tf.init_scope():  # The first call may be inside a tf.function.
            return self._build_graph()

    @abc.abstractmethod
    def _build_graph(self) -> "GraphTokenizer":
        """Imports the graph module of this kind and builds it."""

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
        return {
            "format": self.format,
            "kind": self.kind,
            "lowercase": self.lowercase,
            **self._settings(),
        }

    def save(self, folder: Path) -> None:
        """Writes the tokenizer's files into `folder`, and creates the folder if it does not exist.

        `tokenizer.json` is the last one; it holds the hashes of the others.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self._files().items():
            replace_file(folder / name, data)
        text = json.dumps(self._state(), indent=1) + "\n"
        replace_file(state_path(folder), text.encode("ascii"))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads a tokenizer that `save` wrote.

        Raises:
          UserError: a file is missing, damaged, or belongs to a different kind or format of tokenizer.
        """
        state = read_state(folder)
        if state["kind"] != cls.kind:
            raise UserError(
                f"{state_path(folder)}: kind = {state['kind']!r}: should be {cls.kind!r}"
            )
        if state.get("format") != cls.format:
            raise UserError(
                f"{state_path(folder)}: format = {state.get('format')!r}: should be {cls.format}"
            )
        try:
            setting(state, "lowercase", bool)
            return cls._from_settings(state, folder)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{state_path(folder)}: damaged ({type(error).__name__}: {error})"
            ) from None

    def fingerprint(self) -> str:
        """Returns 64 hexadecimal digits, equal for tokenizers with the same behavior."""
        return hashlib.sha256(json.dumps(self._state(), sort_keys=True).encode()).hexdigest()


def _as_integers(ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns the ids as int64[T]; TypeError if they are of a different type."""
    array = np.asarray(ids).reshape(-1)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"ids should be integers. Received: {array.dtype}")
    return array.astype(np.int64)
