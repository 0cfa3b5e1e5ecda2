"""PortableTextModel: a portable file that continues text."""

import json
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import minigpt
from minigpt.errors import ArgumentProblem, UserError, as_integer
from minigpt.generation.arguments import as_token_ids, check_seeds, seeds_of
from minigpt.generation.prompts import as_texts, check_prompt, unknown_tokens_message
from minigpt.generation.sample import Sample
from minigpt.targets.gguf.instance import Engine
from minigpt.targets.gguf.settings import Settings, settings_of
from minigpt.targets.gguf.vocabulary import PortableTokenizer
from minigpt.targets.targets import WeightsType
from minigpt.tokenizers.continuation import ContinuationText

# New tokens between two looks for stop strings, and for Ctrl-C.
_STRIDE = 8


class PortableModel:
    """What all models of portable files have.

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
        self.tokenizer = PortableTokenizer(engine, self._lock)
        self.max_len: int = engine.key("minigpt.model.max_len")
        self.vocab_size: int = engine.key("minigpt.model.vocab_size")
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
        # A copy has an engine of its own.
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
        """Facts about the training, such as `val_bits_per_byte`.

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

    def unknown_tokens(self, text: str) -> int:
        """Returns the number of words or characters of a text that the vocabulary does not contain.

        Raises:
          UserError: the text is not valid Unicode.
          TypeError: it is not a string.
        """
        check_prompt(text, "text")
        return self.tokenizer.count_unknown(text)


class PortableTextModel(PortableModel):
    """A GPT in a portable file. Its methods are those of `minigpt.TextModel`.

    Continuations are the same as those of `TextModel`, except where two tokens are almost equally probable.
    There is no beam search. Several texts can be streamed at the same time; the engine reads a text again
    whenever it returns to it.
    """

    # The text that the engine continues.
    _current: object = None

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] = 0,
        num_samples: int = 1,
        **settings: Any,
    ) -> list[str]:
        """Continues prompts; see `minigpt.TextModel.generate`.

        Returns:
          The continuations, without the prompts.
        """
        samples = self._samples(prompts, max_new_tokens, seed, num_samples, settings)
        return [sample.text for sample in samples]

    def samples(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] = 0,
        num_samples: int = 1,
        **settings: Any,
    ) -> list[Sample]:
        """Continues prompts; see `minigpt.TextModel.samples`.

        Raises:
          UserError: a setting or a prompt cannot be used, or the text does not fit into memory.
          TypeError: an argument has the wrong type.
          ValueError: the number of seeds is neither 1 nor the number of prompts.
        """
        return list(self._samples(prompts, max_new_tokens, seed, num_samples, settings))

    def iter_samples(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] = 0,
        num_samples: int = 1,
        **settings: Any,
    ) -> Iterator[Sample]:
        """Yields what `samples` returns, one by one."""
        return self._samples(prompts, max_new_tokens, seed, num_samples, settings)

    def _samples(
        self,
        prompts: str | Sequence[str],
        max_new_tokens: int,
        seed: int | Sequence[int],
        num_samples: int,
        settings: dict[str, Any],
    ) -> Iterator[Sample]:
        prompts = as_texts("prompts", prompts)
        seeds = seeds_of(seed, len(prompts))
        num_samples = as_integer("num_samples", num_samples)
        checked = self._checked(max_new_tokens, settings)
        check_seeds(seeds, num_samples)
        self._warn_of_unknown(prompts, stacklevel=4)
        return (
            self._sample(prompt, first + i, checked)
            for prompt, first in zip(prompts, seeds, strict=True)
            for i in range(num_samples)
        )

    def stream(
        self, prompt: str = "", max_new_tokens: int = 40, *, seed: int = 0, **settings: Any
    ) -> Iterator[str]:
        """Yields the text that `generate` returns for one prompt, in pieces as it is generated.

        Raises:
          UserError: a setting or the prompt cannot be used, or the text does not fit into memory.
          TypeError: `prompt` is not a string, or `seed` not an integer.
        """
        (seed,) = seeds_of(seed, 1)
        checked = self._checked(max_new_tokens, settings)
        check_seeds([seed], 1)
        self._warn_of_unknown([prompt], stacklevel=3)
        return self._pieces(prompt, seed, checked)

    def _pieces(self, prompt: str, seed: int, settings: Settings) -> Iterator[str]:
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
        numbers = (settings.temperature, settings.top_k, settings.top_p, settings.min_p)
        penalty, banned = settings.repetition_penalty, settings.banned_tokens
        self._engine.set_sampling(*numbers, penalty, seed, banned)
        self._engine.start(ids, settings.max_new_tokens, added)

    def _checked(self, max_new_tokens: int, settings: dict[str, Any]) -> Settings:
        checked = settings_of({"max_new_tokens": max_new_tokens, **settings})
        problems = [
            ArgumentProblem(
                "banned_tokens", token, f"should be an id from 0 to {self.vocab_size - 1}"
            )
            for token in checked.banned_tokens
            if token >= self.vocab_size
        ]
        if checked.beams > 1:
            problem = "should be 1: a portable file has no beam search; minigpt.load has"
            problems.append(ArgumentProblem("beams", checked.beams, problem))
        if problems:
            raise UserError(*problems)
        return checked

    def _warn_of_unknown(self, prompts: Sequence[str], stacklevel: int) -> None:
        for prompt in prompts:
            check_prompt(prompt)
            if unknown := self.tokenizer.count_unknown(prompt):
                message = unknown_tokens_message(f"prompt {prompt!r}", unknown, self.tokenizer)
                warnings.warn(message, stacklevel=stacklevel)

    def logits(self, token_ids: Any) -> np.ndarray:
        """Scores every next token.

        Args:
          token_ids: int[B, T], T ≤ max_len.
        Returns:
          float32[B, T, V]: row t scores the token at t + 1.
        Raises:
          TypeError: the ids are not integers.
          ValueError: their shape is not [B, T] with T ≤ max_len, or an id is outside the vocabulary.
        """
        ids = as_token_ids(token_ids, self.max_len, self.vocab_size)
        with self._lock:
            self._current = None
            rows = [self._engine.score(row, self.vocab_size) for row in ids]
        return np.stack(rows) if rows else np.zeros((*ids.shape, self.vocab_size), np.float32)
