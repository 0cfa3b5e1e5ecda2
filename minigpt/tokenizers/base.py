"""What all tokenizers share: cutting work over the cores, decoding, files, and the graph side."""

import abc
import codecs
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf
from pydantic import TypeAdapter, ValidationError

from minigpt.errors import UserError
from minigpt.storage import files

FORMAT = 1
GROUP_SIZE = 1 << 20  # characters one core works on at a time
PART_SIZE = 1 << 14  # a longer text is cut where it can be; sentencepiece is fastest on short ones


class Tokenizer(abc.ABC):
    """A fixed vocabulary, and the two ways through it.

    Attributes:
      pieces: the bytes each id stands for in decoded text; special tokens stand for b"".
      separator: the bytes between two pieces of decoded text.
      end_id: the id of `<end>`. Text never encodes to it, not even the literal "<end>".
      unknown_id: the id of `[UNK]`; None where every text has known pieces.
      undrawable_ids: the ids a sampler must never draw.
      lossless: whether `decode(encode(x)) == x` for every x without unknown tokens.
      cut_behind: where a long text may be cut: no token, and no lower-casing, reaches across.
    """

    kind: ClassVar[str]
    separator: ClassVar[bytes] = b""
    cut_behind: ClassVar[re.Pattern[str]] = re.compile("\n")
    end_id: int
    unknown_id: int | None
    undrawable_ids: tuple[int, ...]

    def __init__(self, pieces: Sequence[bytes], lowercase: bool) -> None:
        self.pieces = tuple(pieces)
        self.lowercase = lowercase
        self.lossless = not lowercase

    @classmethod
    @abc.abstractmethod
    def learn(cls, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Self:
        """Learns at most `vocab_size` entries from `texts`."""

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    def piece(self, token: int) -> str:
        """What an id stands for, to look at: "[UNK]", "<end>", and bytes that are no text as "<E2 82>"."""
        if token in (self.unknown_id, self.end_id):
            return "[UNK]" if token == self.unknown_id else "<end>"
        try:
            return self._restore(self.pieces[token].decode())
        except UnicodeDecodeError:
            return f"<{self.pieces[token].hex(' ').upper()}>"

    def encode(self, text: str) -> np.ndarray:
        """Token ids of one text, without an end token.

        Returns:
          int32[T].
        Raises:
          ValueError: `text` holds half of a surrogate pair, which no encoding of Unicode can.
        """
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[np.ndarray]:
        """`encode` of every text, on all cores."""
        parts = [(row, part) for row, text in enumerate(texts) for part in self._cut(text)]
        groups = list(in_groups(part for _, part in parts))
        if len(groups) == 1:
            encoded = self._encode_group(groups[0])
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                encoded = [ids for ids_of in pool.map(self._encode_group, groups) for ids in ids_of]
        rows: list[list[np.ndarray]] = [[] for _ in texts]
        for (row, _), ids in zip(parts, encoded, strict=True):
            rows[row].append(ids)
        return [row[0] if len(row) == 1 else np.concatenate(row) for row in rows]

    def _cut(self, text: str) -> Iterator[str]:
        start = 0
        while len(text) - start > PART_SIZE:
            found = self.cut_behind.search(text, start + PART_SIZE)
            if not found or found.end() == len(text):
                break
            yield text[start : found.end()]
            start = found.end()
        yield text[start:]

    @abc.abstractmethod
    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        """int32[T] of every text, on the calling thread."""

    def count_unknown(self, text: str) -> int:
        """How many of the text's tokens are `[UNK]`."""
        return 0 if self.unknown_id is None else int((self.encode(text) == self.unknown_id).sum())

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of any ids, at any cut.

        Special tokens stand for nothing. A character that is cut at the very end is left out, as
        the next ids may complete it; other bytes that are not UTF-8 become U+FFFD.

        Raises:
          ValueError: an id is outside the vocabulary.
        """
        ids = np.asarray(ids, np.int64).reshape(-1)
        outside = ids[(ids < 0) | (ids >= self.vocab_size)]
        if outside.size:
            raise ValueError(
                f"ids should be from 0 to {self.vocab_size - 1}. Received: {int(outside[0])}"
            )
        pieces = (self.pieces[i] for i in ids.tolist())
        data = self.separator.join(piece for piece in pieces if piece)
        return self._restore(codecs.getincrementaldecoder("utf-8")("replace").decode(data))

    def _restore(self, text: str) -> str:
        """Undoes what encoding did to the text; a prefix of `text` gives a prefix of the result."""
        return text

    def continuation(
        self, prompt_ids: Sequence[int] | np.ndarray, new_ids: Sequence[int] | np.ndarray
    ) -> str:
        """What `new_ids` add: `decode(prompt) + continuation(prompt, new) == decode(both)`."""
        whole = np.concatenate([np.asarray(ids, np.int64) for ids in (prompt_ids, new_ids)])
        return self.decode(whole)[len(self.decode(prompt_ids)) :]

    def graph(self) -> "GraphTokenizer":
        """The same tokenizer as a module to use in a graph; always the same object."""
        return self._graph

    @functools.cached_property
    def _graph(self) -> "GraphTokenizer":
        with tf.init_scope():  # the first call may come from inside somebody's tf.function
            return self._build_graph()

    @abc.abstractmethod
    def _build_graph(self) -> "GraphTokenizer": ...

    @abc.abstractmethod
    def _settings(self) -> dict[str, Any]:
        """What `_from_settings` needs, fit for JSON."""

    @classmethod
    @abc.abstractmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        """The inverse of `_settings`; any KeyError, TypeError or ValueError means damage."""

    def _state(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "kind": self.kind,
            "lowercase": self.lowercase,
            **self._settings(),
        }

    def save(self, folder: Path) -> None:
        """Writes `tokenizer.json` into `folder`, which is made where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self._state(), indent=1) + "\n"
        write_file(state_path(folder), text.encode("ascii"))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Opens what `save` wrote.

        Raises:
          UserError: a file is missing, damaged or of another kind.
        """
        state = read_state(folder)
        if state["kind"] != cls.kind:
            raise UserError(
                f"{state_path(folder)}: kind = {state['kind']!r}: should be {cls.kind!r}"
            )
        try:
            setting(state, "lowercase", bool)
            return cls._from_settings(state, folder)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{state_path(folder)}: damaged ({type(error).__name__}: {error})"
            ) from None

    def fingerprint(self) -> str:
        """64 hexadecimal digits; equal for tokenizers that behave equally."""
        return hashlib.sha256(json.dumps(self._state(), sort_keys=True).encode()).hexdigest()


class GraphTokenizer(tf.Module):
    """A tokenizer in TensorFlow operations; savable inside a SavedModel.

    Subclasses give `_ids` and, where needed, `_restore`.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._pieces = tf.constant(list(tokenizer.pieces), tf.string)
        self._separator = tokenizer.separator
        self._nothing_id = tokenizer.end_id
        self._lowercase = tokenizer.lowercase

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Token ids, without end tokens.

        Args:
          texts: string[B]. What is not UTF-8 counts as U+FFFD.
        Returns:
          ragged int32[B, None].
        """
        return self._ids(lower(_valid_utf8(texts), self._lowercase))

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)], autograph=False)
    def decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """As `Tokenizer.decode`, except that an id outside the vocabulary stands for nothing.

        Args:
          ids: ragged int32[B, None].
        Returns:
          string[B], valid UTF-8.
        """
        return self._decode(ids)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)] * 2, autograph=False)
    def continuation(self, prompt: tf.RaggedTensor, new: tf.RaggedTensor) -> tf.Tensor:
        """As `Tokenizer.continuation`.

        Args:
          prompt, new: ragged int32[B, None].
        Returns:
          string[B], valid UTF-8.
        """
        whole = self._decode(tf.concat([prompt, new], axis=1))
        start = tf.strings.length(self._decode(prompt))
        return tf.strings.substr(whole, start, tf.strings.length(whole) - start)

    def _decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        known = (ids.flat_values >= 0) & (ids.flat_values < tf.size(self._pieces))
        pieces = tf.gather(self._pieces, tf.where(known, ids.flat_values, self._nothing_id))
        pieces = ids.with_flat_values(pieces)
        # An empty piece would bring a separator of its own.
        pieces = tf.ragged.boolean_mask(pieces, pieces != b"")
        joined = tf.strings.reduce_join(pieces, axis=1, separator=self._separator)
        return self._restore(_valid_utf8(_without_cut_character(joined)))

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """string[B], valid UTF-8 → ragged int32[B, None]. Each kind has its own."""
        # No abstract method: the metaclass of tf.Module and that of abc do not go together.
        raise NotImplementedError

    def _restore(self, texts: tf.Tensor) -> tf.Tensor:
        """As `Tokenizer._restore`; string[B] → string[B], both valid UTF-8."""
        return texts


def setting(settings: dict[str, Any], name: str, kind: Any) -> Any:
    """An entry of what was read from JSON.

    Raises:
      KeyError: it is not there.
      TypeError: it is of another type.
    """
    try:
        return TypeAdapter(kind).validate_python(settings[name], strict=True)
    except ValidationError:
        raise TypeError(f"{name} should be {kind}") from None


def lower(texts: tf.Tensor, lowercase: bool) -> tf.Tensor:
    """string[B] → string[B]. The one definition of lower-casing, that of ICU, root locale."""
    return tf.strings.lower(texts, encoding="utf-8") if lowercase else texts


def lower_strings(texts: list[str], lowercase: bool) -> list[str]:
    """`lower` for Python strings."""
    if not lowercase:
        return texts
    return [text.decode() for text in lower(tf.constant(texts, tf.string), True).numpy().tolist()]


def in_groups(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lists of texts in order, each with enough characters to keep a core busy for a while.

    Raises:
      ValueError: a text holds half of a surrogate pair.
    """
    group, size = [], 0
    for text in texts:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text should be valid Unicode. Received: half of a surrogate pair, "
                f"U+{ord(text[error.start]):04X}, at character {error.start}"
            ) from None
        group.append(text)
        size += len(text)
        if size >= GROUP_SIZE:
            yield group
            group, size = [], 0
    if group:
        yield group


def _valid_utf8(texts: tf.Tensor) -> tf.Tensor:
    # On UTF-8 input this replaces exactly what Python's decoder does (WHATWG's maximal subparts).
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def _without_cut_character(texts: tf.Tensor) -> tf.Tensor:
    """Drops the bytes at the end that begin a character but do not finish it.

    The first two bytes decide whether there is one to finish: The Unicode Standard, table 3-7.

    Args:
      texts: string[B], any bytes.
    Returns:
      string[B], up to three bytes shorter.
    """
    padded = tf.strings.join(["   ", texts])
    length = tf.strings.length(padded)
    last = tf.strings.substr(padded, length - 3, tf.fill(tf.shape(length), 3))
    last = tf.cast(tf.io.decode_raw(last, tf.uint8, fixed_length=3), tf.int32)
    third, second, first = last[:, 0], last[:, 1], last[:, 2]

    def begins(lead: tf.Tensor, following: tf.Tensor, longer_than: int) -> tf.Tensor:
        low = tf.where(lead == 0xE0, 0xA0, tf.where(lead == 0xF0, 0x90, 0x80))
        # Table 3-7 ends 0xED at 0x9F (surrogates); Python's decoder waits for the third byte there.
        high = tf.where(lead == 0xF4, 0x8F, 0xBF)
        lowest_lead = {2: 0xE0, 3: 0xF0}[longer_than]
        return (lead >= lowest_lead) & (lead <= 0xF4) & (following >= low) & (following <= high)

    cut = tf.where(
        (first >= 0xC2) & (first <= 0xF4),
        1,
        tf.where(
            begins(second, first, 2),
            2,
            tf.where(begins(third, second, 3) & (first >= 0x80) & (first <= 0xBF), 3, 0),
        ),
    )
    return tf.strings.substr(texts, tf.zeros_like(cut), tf.strings.length(texts) - cut)


def state_path(folder: Path) -> Path:
    return folder / "tokenizer.json"


def read_state(folder: Path) -> dict[str, Any]:
    """The settings and vocabulary that were saved, as far as all kinds have them in common.

    Raises:
      UserError: the file is missing, not what `save` writes, or of another format.
    """
    path = state_path(folder)
    try:
        state = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: damaged, not valid JSON ({error})") from None
    if not isinstance(state, dict) or not isinstance(state.get("kind"), str):
        raise UserError(f"{path}: damaged, not a saved tokenizer")
    if state.get("format") != FORMAT:
        raise UserError(f"{path}: format = {state.get('format')!r}: should be {FORMAT}")
    return state


def read_file(path: Path) -> bytes:
    """The bytes of a file; UserError where it cannot be read."""
    try:
        return files.read_file(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def write_file(path: Path, data: bytes) -> None:
    """Writes a file so that at every moment it is either the old or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
