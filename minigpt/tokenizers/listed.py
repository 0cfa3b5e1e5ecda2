"""The listed tokenizer: one name for each token id, such as moves of chess or the characters of nanoGPT."""

import io
import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from pickletools import genops
from typing import Any, ClassVar, Self

import numpy as np

from minigpt.tokenizers.given import END_NAMES, UNKNOWN_NAMES, FileTokenizer
from minigpt.tokenizers.word import split_chunk


class ListedTokenizer(FileTokenizer):
    """A vocabulary of given names. The id of a name is its position.

    Two tokens follow the names if these do not include them: the end token, and `[UNK]` for the names in
    prompts that are not in the vocabulary.

    Attributes:
      separator: what is between two names in a text: b" ", or b"" for characters.
      are_words: whether the names are words of the word tokenizer. Then text is split as there, with every
        sign a word of its own; otherwise at white space.
      data: JSON: the names, and whether they are characters.
    """

    kind: ClassVar[str] = "listed"
    file_name: ClassVar[str] = "names.json"

    def __init__(self, data: bytes) -> None:
        self.names, are_characters = json.loads(data)
        places = {name: i for i, name in enumerate(self.names)}
        for i, name in enumerate(self.names):
            if places[name] != i or not (are_characters or name.split() == [name]):
                raise ValueError(f"the name of the id {i} is {name!r}; should be one word, once")
        named = ([*END_NAMES, "<end>"], [*UNKNOWN_NAMES, "[UNK]"])
        special = [next((n for n in each if n in places), each[-1]) for each in named]
        every = self.names + [name for name in special if name not in places]
        super().__init__(data, [b"" if name in special else name.encode() for name in every])
        self.end_id, self.unknown_id = map(every.index, special)
        # A class variable of the other kinds.
        self.separator = b"" if are_characters else b" "  # type: ignore[misc]
        self.lossless = are_characters
        self._ids = {piece.decode(): i for i, piece in enumerate(self.pieces) if piece}
        self.are_words = not are_characters and all(split_chunk(n, False) == [n] for n in self._ids)

    @classmethod
    def from_data(cls, data: bytes, path: Path) -> Self:
        if path.suffix == ".pkl":
            names = read_meta(data)
            return cls(json.dumps([names, all(len(name) == 1 for name in names)]).encode())
        lines = data.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n").split("\n")
        return cls(json.dumps([lines, False]).encode())

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        get, unknown = self._ids.get, self.unknown_id
        names: Iterable[list[str]] = map(str.split if self.separator else list, texts)
        if self.are_words:
            names = ([w for name in text for w in split_chunk(name, False)] for text in names)
        return [np.array([get(name, unknown) for name in text], np.int32) for text in names]


class _PlainUnpickler(pickle.Unpickler):
    """Reads dictionaries, lists, texts and numbers, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        raise ValueError(f"asks for {module}.{name}, which could run a program; should hold names")


def read_meta(data: bytes) -> list[str]:
    """Returns the names of the ids in nanoGPT's meta.pkl: its `itos`. Runs no code of the file."""
    # A place in the memo that no pickle of this size needs would take memory up to that place.
    if any("PUT" in o.name and int(place or 0) > len(data) for o, place, _ in genops(data)):
        raise ValueError("damaged")
    try:
        meta = _PlainUnpickler(io.BytesIO(data)).load()
        names = [meta["itos"][i] for i in range(len(meta["itos"]))]
        if not "".join(names) or meta.get("vocab_size", len(names)) != len(names):
            raise ValueError("itos should have vocab_size names")
    except Exception as error:  # A damaged pickle raises exceptions of any kind.
        raise ValueError(f"not a meta.pkl of nanoGPT ({type(error).__name__}: {error})") from None
    return names
