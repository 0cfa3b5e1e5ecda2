"""The listed tokenizer: one name for each token id, such as moves of chess or the characters of nanoGPT."""

import io
import pickle
import pickletools
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigpt.tokenizers.base import setting
from minigpt.tokenizers.given import END_NAMES, UNKNOWN_NAMES, GivenTokenizer
from minigpt.tokenizers.word import split_chunk


class ListedTokenizer(GivenTokenizer):
    """A vocabulary of given names. The id of a name is its position.

    Two tokens follow the names if these do not include them: the end token, and `[UNK]` for the names in
    prompts that are not in the vocabulary.

    Attributes:
      names: the names.
      separator: what is between two names in a text: b" ", or b"" for characters.
      are_words: whether the names are words of the word tokenizer. Then text is split as there, with every
        sign a word of its own; otherwise at white space.
    """

    kind: ClassVar[str] = "listed"

    def __init__(self, names: Sequence[str], are_characters: bool) -> None:
        """
        Args:
          names: the name of each id.
          are_characters: whether each name is one character, and text has nothing between them.
        Raises:
          ValueError: a name is a duplicate, or contains white space or is empty and is no character.
        """
        places = {name: i for i, name in enumerate(names)}
        for i, name in enumerate(names):
            if places[name] != i:
                raise ValueError(f"the ids {i} and {places[name]} have the same name, {name!r}")
            if len(name) != 1 if are_characters else name.split() != [name]:
                raise ValueError(f"the name of the id {i} is {name!r}; should be one word")
        if not names:
            raise ValueError("has no names; should have one for each token id")
        end = next((name for name in END_NAMES if name in places), "<end>")
        unknown = next((name for name in UNKNOWN_NAMES if name in places), "[UNK]")
        every = [*names, *(name for name in (end, unknown) if name not in places)]
        super().__init__(b"", [b"" if n in (end, unknown) else n.encode() for n in every])
        self.names = list(names)
        self.end_id, self.unknown_id = every.index(end), every.index(unknown)
        self.never_sampled_ids = (self.unknown_id,)
        # A class variable of the other kinds.
        self.separator = b"" if are_characters else b" "  # type: ignore[misc]
        self.lossless = are_characters
        words = [piece.decode() for piece in self.pieces if piece]
        self.are_words = not are_characters and all(split_chunk(w, False) == [w] for w in words)
        self._ids = {piece.decode(): i for i, piece in enumerate(self.pieces) if piece}

    @classmethod
    def _from_data(cls, data: bytes, path: Path) -> Self:
        if path.suffix == ".pkl":
            names = read_meta(data)
            return cls(names, all(len(name) == 1 for name in names))
        lines = data.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n").split("\n")
        return cls(lines, are_characters=False)

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        get, unknown = self._ids.get, self.unknown_id
        split: Callable[[str], Iterable[str]] = str.split if self.separator else list
        if self.are_words:
            split = _words
        return [np.array([get(name, unknown) for name in split(text)], np.int32) for text in texts]

    def _files(self) -> dict[str, bytes]:
        return {}

    def _settings(self) -> dict[str, Any]:
        return {"names": self.names, "are_characters": not self.separator}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        return cls(setting(settings, "names", list[str]), setting(settings, "are_characters", bool))


def _words(text: str) -> Iterable[str]:
    return chain.from_iterable(split_chunk(chunk, False) for chunk in text.split())


class _PlainUnpickler(pickle.Unpickler):
    """Reads dictionaries, lists, texts and numbers. A pickle that asks for anything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise ValueError(
            f"asks for {module}.{name}, which could run a program; should hold only names and numbers"
        )


def read_meta(data: bytes) -> list[str]:
    """Returns the names of the ids in nanoGPT's meta.pkl: its `itos`. Runs no code of the file.

    Raises:
      ValueError: it is no such file.
    """
    try:
        # A place in the memo that no pickle of this size needs would take memory up to that place.
        for opcode, argument, _ in pickletools.genops(data):
            if "PUT" in opcode.name and int(argument or 0) > len(data):
                raise ValueError("damaged")
        meta = _PlainUnpickler(io.BytesIO(data)).load()
        itos = meta["itos"]
        names = [itos[i] for i in range(len(itos))]
    except ValueError:
        raise
    except Exception as error:  # A damaged pickle raises exceptions of any kind.
        raise ValueError(f"not a meta.pkl of nanoGPT ({type(error).__name__}: {error})") from None
    if not all(isinstance(name, str) for name in names):
        raise ValueError("itos: should map each id to a text")
    size = meta.get("vocab_size", len(names))
    if size != len(names):
        raise ValueError(f"vocab_size = {size!r}: itos has {len(names):,} names")
    return names
