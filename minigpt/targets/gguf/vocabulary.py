"""The tokenizer of a portable file: the engine encodes, `Vocabulary` decodes."""

import threading
from collections.abc import Sequence

import numpy as np

from minigpt.targets.gguf.instance import Engine
from minigpt.tokenizers.grouping import checked, strings
from minigpt.tokenizers.vocabulary import Vocabulary, unescaped


class PortableTokenizer(Vocabulary):
    """The tokenizer of a portable file. Its ids and texts are those of the tokenizer that was written.

    Args:
      engine: an engine with the file.
      lock: held while the engine is called.
    Attributes:
      kind, lowercase, own_start_id, never_sampled_ids, byte_ids, lossless: as in
        `minigpt.tokenizers.Tokenizer`.
    """

    def __init__(self, engine: Engine, lock: threading.RLock) -> None:
        def key(name: str) -> np.ndarray:
            return engine.key(f"minigpt.tokenizer.{name}")

        data, ends = key("pieces").tobytes(), key("piece_ends").tolist()
        super().__init__([data[a:b] for a, b in zip([0, *ends], ends, strict=False)])
        self._engine, self._lock = engine, lock
        self.kind = str(key("kind"))
        self.lowercase = bool(key("lowercase"))
        # A class variable of the tokenizers, which have a class for each kind.
        self.separator = b" " if self.kind == "word" else b""  # type: ignore[misc]
        self.end_id = int(key("end_id"))
        start_id = key("start_id")
        self.own_start_id = None if start_id is None else int(start_id)
        unknown_id = int(key("unknown_id"))
        self.unknown_id = None if unknown_id < 0 else unknown_id
        never_sampled = key("undrawable_ids")
        self.never_sampled_ids = () if never_sampled is None else tuple(never_sampled.tolist())
        # Only these two kinds have words or characters that are not in the vocabulary.
        self._counts_unknown = self.kind in ("character", "word")
        has_bytes = self.kind == "character" and self.unknown_id is None
        byte_ids = key("byte_ids")
        self.byte_ids = tuple(sorted(byte_ids[byte_ids >= 0].tolist())) if has_bytes else ()
        self.lossless = not self.lowercase and self.kind != "word"

    def encode(self, text: str) -> np.ndarray:
        """Returns int32[T], the token ids of a text, without an end token.

        Raises:
          TypeError: `text` is not a string.
          ValueError: `text` contains half of a surrogate pair, which UTF-8 cannot represent.
        """
        (text,) = checked([text])
        with self._lock:
            return self._engine.encode(text)[0]

    def encode_many(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encodes every text as `encode` does."""
        return [self.encode(text) for text in strings(texts)]

    def count_unknown(self, text: str) -> int:
        """Returns the number of words or characters of a text that the vocabulary does not contain."""
        if not self._counts_unknown:
            return 0
        with self._lock:
            return self._engine.encode(text)[1]

    def _restore(self, text: str) -> str:
        return unescaped(text) if self.kind == "byte_pair" else text
