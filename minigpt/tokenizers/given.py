"""Tokenizers that are read from a file of the user: their common code, and models of sentencepiece."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from minigpt.errors import UserError
from minigpt.tokenizers.base import Tokenizer, read_checked_file, read_or_refuse
from minigpt.tokenizers.byte_pair import MODEL_FILE, piece_bytes

# What tokenizers call the end of a document, and what is unknown. The first name of a vocabulary is meant.
END_NAMES = ["<|endoftext|>", "<end>", "</s>", "<eos>", "[EOS]", "<|end_of_text|>", "[SEP]"]
UNKNOWN_NAMES = ["[UNK]", "<unk>", "<UNK>"]


class FileTokenizer(Tokenizer):
    """A tokenizer whose file is given. The content of the file is saved with the tokenizer.

    A subclass is built from this content, and raises a ValueError if it cannot be used.

    Attributes:
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
            return cls.from_data(read_or_refuse(path), path)
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


class SentencePieceTokenizer(FileTokenizer):
    """A model of sentencepiece: unigram (Kudo 2018) or byte pairs, with a normalizer of its own.

    Encodes as the sentencepiece package does. No control token is found in a text.

    The end token is the model's; if it has none, an id follows those of the model.
    """

    kind: ClassVar[str] = "sentencepiece"
    file_name: ClassVar[str] = MODEL_FILE

    def __init__(self, data: bytes) -> None:
        try:
            proto = ModelProto.FromString(data)
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=data)
            end = self._processor.eos_id()
            if not proto.pieces:
                raise ValueError("it has no pieces")
        except Exception as error:  # protobuf and sentencepiece have exceptions of their own.
            raise ValueError(f"not a model of sentencepiece ({error})") from None
        trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
        if trainer.treat_whitespace_as_suffix:
            raise ValueError("treat_whitespace_as_suffix = true: should be false")
        pieces = [piece_bytes(piece) for piece in proto.pieces]
        self.end_id = len(pieces) if end < 0 else end
        super().__init__(data, pieces + [b""] * (end < 0))
        self.unknown_id = None if trainer.byte_fallback else self._processor.unk_id()
        self.has_space = normalizer.add_dummy_prefix or normalizer.remove_extra_whitespaces
        # Except for U+2581, which sentencepiece does not distinguish from a space.
        self.lossless = not (normalizer.precompiled_charsmap or normalizer.remove_extra_whitespaces)

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        return [np.array(ids, np.int32) for ids in self._processor.encode(texts, num_threads=1)]
