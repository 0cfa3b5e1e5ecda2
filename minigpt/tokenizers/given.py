"""The common code of the tokenizers that are read from a file of the user."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from minigpt.errors import UserError
from minigpt.tokenizers.base import Tokenizer, read_checked_file, read_file

# What tokenizers call the end of a document, and what is unknown. The first name of a vocabulary is meant.
END_NAMES = ["<|endoftext|>", "<end>", "</s>", "<eos>", "[EOS]", "<|end_of_text|>", "[SEP]"]
UNKNOWN_NAMES = ["[UNK]", "<unk>", "<UNK>"]


class GivenTokenizer(Tokenizer):
    """A tokenizer whose file is given. The content of the file is saved with the tokenizer.

    A subclass is built from this content, and raises a ValueError if it cannot be used.

    Attributes:
      file_name: the name of the saved file.
      has_space: whether the first token of a text has a space that the text does not have.
    """

    file_name: ClassVar[str]
    # Parts of a text would be encoded as texts of their own, which begin with a space.
    cut_after = re.compile("(?!)")
    has_space = False

    def __init__(self, data: bytes, pieces: Sequence[bytes]) -> None:
        super().__init__(pieces, lowercase=False)
        self.data = data

    @classmethod
    def from_file(cls, path: Path) -> Tokenizer:
        """Reads a file of the user; a `UserError` if it cannot be used."""
        try:
            return cls.from_data(read_file(path), path)
        except ValueError as error:
            raise UserError(f"{path}: {' '.join(str(error).split())}") from None

    @classmethod
    def from_data(cls, data: bytes, path: Path) -> Tokenizer:
        """Returns the tokenizer with the content of a file; a ValueError if it cannot be used."""
        return cls(data)  # type: ignore[call-arg]

    def decode_bytes(self, data: bytes) -> str:
        text = super().decode_bytes(data)
        return text.removeprefix(" ") if self.has_space else text

    def _files(self) -> dict[str, bytes]:
        return {self.file_name: self.data}

    def _settings(self) -> dict[str, Any]:
        return {"sha256": hashlib.sha256(self.data).hexdigest()}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        data = read_checked_file(folder / cls.file_name, settings["sha256"])
        return cls(data)  # type: ignore[call-arg]
