"""PortableTextModel and PortableTranslationModel: portable files that continue text or translate."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import minigpt
from minigpt.errors import UserError
from minigpt.generation.base import BaseTextModel, BaseTranslationModel, ModelWithTokenizer, Sample
from minigpt.generation.prompts import banned_token_problems, check_seeds
from minigpt.targets.gguf.instance import Engine
from minigpt.targets.gguf.settings import Settings, engine_problems, settings_of
from minigpt.targets.gguf.vocabulary import PortableTokenizer
from minigpt.tokenizers.continuation import ContinuationText

if TYPE_CHECKING:
    # Imports pydantic: NumPy and wasmtime are enough for this module.
    from minigpt.targets.targets import WeightsType

# New tokens between two checks for stop strings and for Ctrl-C.
_STRIDE = 8


class PortableModel(ModelWithTokenizer):
    """The common base of the models of portable files.

    Args:
      engine: an engine with the file.
      path: the file.
    Attributes:
      tokenizer: the model's tokenizer.
      kind: "gpt" or "encoder_decoder".
      weights: how matrices are stored: "float32", "float16" or "int8".
      max_len: the context.
      vocab_size: V.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine, self._path = engine, path
        # The engine has one memory. Threads take turns.
        self._lock = threading.RLock()
        self.tokenizer: PortableTokenizer = PortableTokenizer(engine, self._lock)
        self.max_len = engine.key("minigpt.model.max_len")
        self.vocab_size = engine.key("minigpt.model.vocab_size")
        self.kind: str = engine.key("minigpt.model.kind")
        # llama.cpp's names for the types: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
        types: dict[int, WeightsType] = {0: "float32", 1: "float16", 7: "int8"}
        file_type = engine.key("general.file_type")
        self.weights: WeightsType = types.get(
            file_type if isinstance(file_type, int) else 0, "float32"
        )
        self._texts = {name: engine.key(name) for name in ("minigpt.config", "minigpt.training")}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        # A copy has its own engine.
        return minigpt.load_portable, (self._path,)

    @property
    def config(self) -> dict[str, Any]:
        """The sections `model`, `tokenizer`, `sampling` and `training` of the configuration.

        Raises:
          UserError: the file is damaged.
        """
        return self._json("minigpt.config")

    @property
    def training(self) -> dict[str, Any]:
        """Facts about the run, such as `val_bits_per_byte`.

        Raises:
          UserError: the file is damaged.
        """
        return self._json("minigpt.training")

    def _json(self, name: str) -> dict[str, Any]:
        try:
            value = json.loads(self._texts[name])
        except (TypeError, ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise UserError(f"{self._path}: {name}: damaged, not a JSON object")
        return value


class PortableTextModel(PortableModel, BaseTextModel):
    """A GPT in a portable file.

    Continuations are the same as those of `TextModel`, except where two tokens are almost equally probable.
    There is no beam search. Several texts can be streamed at the same time; the engine reads a text again
    whenever it returns to it.
    """

    # The text that the engine continues.
    _current: object = None

    def _settings(self, values: dict[str, Any]) -> Settings:
        settings = settings_of(values)
        problems = banned_token_problems(settings.banned_tokens, self.vocab_size)
        problems += engine_problems(vars(settings), "; minigpt.load has")
        if problems:
            raise UserError(*problems)
        return settings

    def _samples(
        self, prompts: list[str], seeds: list[int], settings: Settings, num_samples: int
    ) -> Iterator[Sample]:
        check_seeds(seeds, num_samples)
        return (
            self._sample(prompt, first + i, settings)
            for prompt, first in zip(prompts, seeds, strict=True)
            for i in range(num_samples)
        )

    def _pieces(self, prompt: str, seed: int, settings: Settings) -> Iterator[str]:
        check_seeds([seed], 1)
        return self._streamed(prompt, seed, settings)

    def _streamed(self, prompt: str, seed: int, settings: Settings) -> Iterator[str]:
        text = ContinuationText(self.tokenizer, self.tokenizer.encode(prompt), settings.stop)
        for tokens in self._tokens(prompt, seed, settings, stride=1):
            if ready := text.push(tokens):
                yield ready
            if text.stopped:
                return
        if held := text.finish():
            yield held

    def _sample(self, prompt: str, seed: int, settings: Settings) -> Sample:
        text = ContinuationText(self.tokenizer, self.tokenizer.encode(prompt), settings.stop)
        ready = []
        for tokens in self._tokens(prompt, seed, settings, _STRIDE):
            ready.append(text.push(tokens))
            if text.stopped:
                break
        return Sample(prompt, "".join(ready) + text.finish(), seed, text.tokens)

    def _tokens(
        self, prompt: str, seed: int, settings: Settings, stride: int
    ) -> Iterator[list[int]]:
        """Yields the new tokens, up to `stride` at a time."""
        ids, added = self.tokenizer.encode(prompt).tolist(), 0
        text = object()
        while True:
            with self._lock:
                if self._current is not text:
                    # The engine has one text at a time: another one has been started since.
                    self._current = None
                    self._start(ids, added, seed, settings)
                    self._current = text
                tokens = self._engine.add_tokens(stride)
            if not tokens:
                return
            ids += tokens
            added += len(tokens)
            yield tokens

    def _start(self, ids: list[int], added: int, seed: int, settings: Settings) -> None:
        self._engine.set_sampling(settings, seed)
        self._engine.start(ids, settings.max_new_tokens, added)

    def _logits(self, token_ids: np.ndarray) -> np.ndarray:
        with self._lock:
            self._current = None
            rows = [self._engine.score(row, self.vocab_size) for row in token_ids]
        return np.stack(rows) if rows else np.zeros((*token_ids.shape, self.vocab_size), np.float32)


class PortableTranslationModel(PortableModel, BaseTranslationModel):
    """An encoder-decoder in a portable file. It translates greedily: there is no beam search."""

    def _targets(
        self, sources: list[np.ndarray], max_new_tokens: int, beams: int, length_penalty: float
    ) -> list[list[int]]:
        return [self._target(source, max_new_tokens) for source in sources]

    def _check_beams(self, beams: int) -> None:
        if problems := engine_problems({"beams": beams}, "; minigpt.load has"):
            raise UserError(*problems)

    def _target(self, source: np.ndarray, max_new_tokens: int) -> list[int]:
        with self._lock:
            self._engine.start_translation(source, max_new_tokens)
            return self._engine.add_tokens(self.max_len)
