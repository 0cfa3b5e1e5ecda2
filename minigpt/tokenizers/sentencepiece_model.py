"""A sentencepiece model of the user: unigram (Kudo 2018) or byte pairs, with a normalizer of its own."""

from typing import ClassVar

import numpy as np
import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from minigpt.tokenizers.byte_pair import MODEL_FILE, piece_bytes
from minigpt.tokenizers.given import GivenTokenizer


class SentencePieceTokenizer(GivenTokenizer):
    """Encodes as the sentencepiece package does. No control token is found in a text.

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
        silent = (i for i, piece in enumerate(self.pieces) if not piece)
        self.never_sampled_ids = tuple(i for i in silent if i != self.end_id)
        self.has_space = normalizer.add_dummy_prefix or normalizer.remove_extra_whitespaces
        # Except for U+2581, which sentencepiece does not distinguish from a space.
        self.lossless = not (normalizer.precompiled_charsmap or normalizer.remove_extra_whitespaces)

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        return [np.array(ids, np.int32) for ids in self._processor.encode(texts, num_threads=1)]
