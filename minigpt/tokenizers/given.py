"""The common code of the tokenizers that are read from a file of the user."""

import copy
import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from minigpt.errors import UserError
from minigpt.tokenizers.base import Tokenizer, read_checked_file, read_file

# What tokenizers call the token that ends a document, and the one for what is unknown. The first name that
# a vocabulary has is meant.
END_NAMES = ["<|endoftext|>", "<end>", "</s>", "<eos>", "[EOS]", "<|end_of_text|>", "[SEP]"]
# Parts of a text would be encoded as texts of their own, which begin with a space.
NEVER = re.compile("(?!)")
UNKNOWN_NAMES = ["[UNK]", "<unk>", "<UNK>"]


class GivenTokenizer(Tokenizer):
    """A tokenizer whose file is given. The content of the file is saved with the tokenizer.

    A subclass is built from the content alone, and raises a ValueError if it cannot be used.

    Attributes:
      file_name: the name of the saved file.
      data: the content of the file.
    """

    file_name: ClassVar[str]

    def __init__(self, data: bytes, pieces: Sequence[bytes]) -> None:
        super().__init__(pieces, lowercase=False)
        self.data = data

    @classmethod
    def learn(cls, texts: Iterable[str], *args: Any, **kwargs: Any) -> Self:
        """Raises a `UserError`: the vocabulary is given, not learned."""
        raise UserError(
            f"tokenizer.kind = {cls.kind!r}: is read from a file, not learned from text"
        )

    @classmethod
    def from_file(cls, path: Path) -> Tokenizer:
        """Reads a file of the user.

        Raises:
          UserError: the file cannot be read or used.
        """
        try:
            return cls._from_data(read_file(path), path)
        except ValueError as error:
            raise UserError(f"{path}: {' '.join(str(error).split())}") from None

    @classmethod
    def _from_data(cls, data: bytes, path: Path) -> Tokenizer:
        """Builds a tokenizer from the content of a file of the user; ValueError if it cannot be used."""
        return cls(data)  # type: ignore[call-arg]  # Subclasses take the content.

    def with_start(self) -> Self:
        tokenizer = copy.copy(self)
        free = [i for i in self.never_sampled_ids if i != self.unknown_id]
        tokenizer.own_start_id = free[0] if free else None
        return tokenizer

    def _files(self) -> dict[str, bytes]:
        return {self.file_name: self.data}

    def _settings(self) -> dict[str, Any]:
        return {"sha256": hashlib.sha256(self.data).hexdigest()}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        data = read_checked_file(folder / cls.file_name, settings["sha256"])
        return cls(data)  # type: ignore[call-arg]
