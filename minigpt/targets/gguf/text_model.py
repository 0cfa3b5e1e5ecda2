"""Portable files that continue text or translate: `load_portable` opens one."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minigpt.config.sampling import TextSettings, engine_problems, own_settings
from minigpt.errors import ArgumentProblem, UserError, as_integer, as_path
from minigpt.generation.base_models import (
    BaseTextModel,
    BaseTranslationModel,
    ModelWithTokenizer,
    Prompt,
    Sample,
    check_prompt,
    shortened,
)
from minigpt.generation.controls import Controls
from minigpt.runs.layout import model_path
from minigpt.storage.atomic import replace_file
from minigpt.targets.gguf.instance import Engine
from minigpt.tokenizers.chat_format import ChatFormat
from minigpt.tokenizers.vocabulary import ContinuationText, Vocabulary, unescaped

if TYPE_CHECKING:
    # Imports pydantic: NumPy and wasmtime are enough for this module.
    from minigpt.targets.targets import WeightsType

# New tokens between two checks for stop strings and for Ctrl-C.
_STRIDE = 8
# Tokens of a window of learning.
_WINDOW = 256


class PortableTokenizer(Vocabulary):
    """The tokenizer of a portable file. Its ids and texts are those of the tokenizer that was written.

    It has the attributes kind, lowercase and lossless of `minigpt.tokenizers.base.Tokenizer`. The lock is
    held while the engine is called.
    """

    def __init__(self, engine: Engine, lock: threading.RLock) -> None:
        def key(name: str) -> np.ndarray:
            return engine.key(f"minigpt.tokenizer.{name}")

        def texts(name: str, ends_name: str) -> list[bytes]:
            if (data := key(name)) is None:
                return []  # A file without added tokens has no such key.
            ends = key(ends_name).tolist()
            return [data[a:b].tobytes() for a, b in zip([0, *ends], ends, strict=False)]

        super().__init__(texts("pieces", "piece_ends"))
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
        chat = key("chat")
        self.chat = None if chat is None else ChatFormat.of_state(json.loads(str(chat)))
        self._added = [text.decode() for text in texts("added", "added_ends")]

    def encode(self, text: str) -> np.ndarray:
        """Returns int32[T], the token ids of a text, without an end token.

        A `ValueError` is raised for half of a surrogate pair, which UTF-8 cannot represent.
        """
        if not isinstance(text, str):
            raise TypeError(f"text should be a string. Received: {text!r}")
        with self._lock:
            return self._engine.encode(text)[0]

    def encode_many(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encodes every text as `encode` does."""
        # Imports threads, which nothing else here needs.
        from minigpt.tokenizers.base import checked

        return [self.encode(text) for text in checked(texts)]

    def encode_plain(self, texts: Sequence[str]) -> list[np.ndarray]:
        for text in texts:
            if name := next((name for name in self._added if name in text), None):
                raise UserError(
                    f"content: contains {name!r}, the name of a special token, which the engine would read "
                    "as this token; minigpt.load reads it as text"
                )
        return self.encode_many(texts)

    def count_unknown(self, text: str) -> int:
        """Returns the number of words or characters of a text that the vocabulary does not contain."""
        if not self._counts_unknown:
            return 0
        with self._lock:
            return self._engine.encode(text)[1]

    def _restore(self, text: str) -> str:
        return unescaped(text) if self.kind == "byte_pair" else text


class PortableModel(ModelWithTokenizer):
    """The common base of the models of portable files.

    Attributes:
      tokenizer: the model's tokenizer.
      kind: "gpt" or "encoder_decoder".
      weights: how matrices are stored: "float32", "float16" or "int8".
      max_len, vocab_size: the context, and V.
      parameters: the number of weights.
      learned_steps: how often the weights were changed after the export.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        self.parameters = engine.weight_count
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
        stored = file_type if isinstance(file_type, int) else 0
        self.weights: WeightsType = types.get(stored, "float32")
        self._texts = {name: engine.key(name) for name in ("minigpt.config", "minigpt.training")}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    @property
    def learned_steps(self) -> int:
        return self._engine.key("minigpt.learned_steps") or 0

    @property
    def config(self) -> dict[str, Any]:
        """The sections `model`, `tokenizer`, `sampling` and `training` of the configuration."""
        return self._json("minigpt.config")

    @property
    def training(self) -> dict[str, Any]:
        """Facts about the run, such as `val_bits_per_byte`."""
        return self._json("minigpt.training")

    def _json(self, name: str) -> dict[str, Any]:
        """Returns the object in a key; a `UserError` if the file is damaged."""
        with suppress(TypeError, ValueError, RecursionError):
            if isinstance(value := json.loads(self._texts[name]), dict):
                return value
        raise UserError(f"{self._path}: {name}: damaged, not a JSON object")


class PortableTextModel(PortableModel, BaseTextModel):
    """A GPT in a portable file.

    Continuations are the same as those of `TextModel`, except where two tokens are almost equally probable.
    Several texts can be streamed at the same time; the engine reads a text again whenever it returns to it.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        super().__init__(engine, path)
        with suppress(UserError):
            self.defaults = own_settings(self.config.get("sampling"))

    def learn(
        self,
        text: str,
        steps: int | None = None,
        *,
        learning_rate: float | None = None,
        batch_size: int = 4,
        length: int | None = None,
        seed: int = 0,
        on_step: Callable[[int, float], Any] | None = None,
    ) -> list[float]:
        """Trains the model on a text with Adam, without dropout. Its texts have the new weights at once.

        The same arguments give the same weights, here and in the page of the model. The optimizer begins
        anew in each call. The weights are rounded to the types of the file after each step.

        Args:
          text: the text. Each step learns from windows of it at random places.
          steps: updates of the weights, at least 1; None: as many as suit the length of the text: three
            passes over 20 KB, and twice as many steps for four times the length.
          learning_rate: of Adam (Kingma & Ba 2015; β₁ 0.9, β₂ 0.999, ε 1e-7) in the first step, from where
            it falls linearly to 0; None: one that suits the size of the model, 5e-4 for 5 million weights.
          batch_size: windows of a step, at least 1.
          length: tokens of a window, less than those of the text and at most max_len; None: 256, or as many
            as these allow.
          seed: of the windows, from 0 to 2³¹ - 1.
          on_step: is called with the number of each step, from 1 on, and its loss. Learning ends if it
            returns False.
        Returns:
          The mean cross-entropy of the windows of each step before its update, in nats per token.
        Raises:
          UserError: an argument cannot be used, there is not enough memory, or the loss is no longer
            finite; the weights are then those of the last step.
          TypeError: an argument has another type.
        """
        check_prompt(text, "text")
        with self._lock:
            ids = self.tokenizer.encode(text)
            numbers = {"steps": steps, "batch_size": batch_size, "length": length, "seed": seed}
            length = _window(text, len(ids), self.max_len, learning_rate, numbers)
            self._engine.current = None
            losses: list[float] = []
            rate = float(learning_rate or 0)
            how = length, int(batch_size), int(seed), int(steps or 0), rate
            try:
                with self._engine.learning(ids, *how) as (count, step):
                    for number in range(1, count + 1):
                        losses.append(step())
                        if on_step is not None and on_step(number, losses[-1]) is False:
                            break
            finally:
                # Texts that were begun meanwhile are read again.
                self._engine.current = None
        return losses

    def save(self, path: str | Path) -> None:
        """Writes the portable file with the weights that the model has now, whole or not at all.

        An existing file is replaced.

        Raises:
          UserError: there is not enough memory.
          OSError: the file cannot be written.
        """
        with self._lock:
            content = self._engine.file()
        replace_file(as_path("path", path), content)

    def _check(self, settings: TextSettings) -> None:
        if problems := engine_problems(vars(settings), "; minigpt.load has"):
            raise UserError(*problems)

    def _samples(
        self, prompts: list[Prompt], seeds: list[int], settings: Any, number: int, controls: Any
    ) -> Iterator[Sample]:
        return (
            self._sample(prompt, first + i, settings, controls)
            for prompt, first in zip(prompts, seeds, strict=True)
            for i in range(number)
        )

    def _pieces(self, prompt: Prompt, seed: int, settings: Any, controls: Any) -> Iterator[str]:
        tokens = self._tokens(prompt, seed, settings, 1, controls)
        return ContinuationText(self.tokenizer, prompt.ids, settings.stop).written(tokens)

    def _sample(self, prompt: Prompt, seed: int, settings: TextSettings, controls: Any) -> Sample:
        text = ContinuationText(self.tokenizer, prompt.ids, settings.stop)
        tokens = self._tokens(prompt, seed, settings, _STRIDE, controls)
        return Sample(prompt.text, "".join(text.written(tokens)), seed, text.tokens)

    def _tokens(
        self,
        prompt: Prompt,
        seed: int,
        settings: TextSettings,
        stride: int,
        controls: Controls | None,
    ) -> Iterator[list[int]]:
        """Yields the new tokens, up to `stride` at a time."""
        ids, added = prompt.ids.tolist(), 0
        text = object()

        def resume() -> bool:
            """Returns whether the engine has to read the text again."""
            if self._engine.current is text:
                return False
            # The engine has one text at a time: another one has been started since.
            self._engine.current = None
            self._engine.set_sampling(settings, seed)
            self._engine.start(ids, settings.max_new_tokens, added)
            self._engine.current = text
            return True

        process = controls.start(self.tokenizer, np.array(ids, np.int32)) if controls else None
        while process is None or added < settings.max_new_tokens:
            with self._lock:
                resume()
                logits = None
                if process is not None:
                    logits = self._engine.adjusted_logits(self.vocab_size)
                    logits = process(np.array(ids, np.int32), logits)
                    if np.isneginf(logits).all():
                        return
                    if resume():  # The function has used the model.
                        self._engine.adjusted_logits(self.vocab_size)
                tokens = self._engine.add_tokens(stride, logits)
            if not tokens:
                return
            ids += tokens
            added += len(tokens)
            yield tokens

    def _logits(self, token_ids: np.ndarray) -> np.ndarray:
        with self._lock:
            self._engine.current = None
            rows = [self._engine.score(row, self.vocab_size) for row in token_ids]
        return np.stack(rows) if rows else np.zeros((*token_ids.shape, self.vocab_size), np.float32)

    def _mean_latent(self, ids: np.ndarray) -> np.ndarray:
        with self._lock:
            self._engine.current = None
            return self._engine.mean_latent(ids)


class PortableTranslationModel(PortableModel, BaseTranslationModel):
    """An encoder-decoder in a portable file. It translates greedily: there is no beam search."""

    def _targets(
        self, sources: list[np.ndarray], max_new_tokens: int, beams: int, length_penalty: float
    ) -> list[list[int]]:
        if problems := engine_problems({"beams": beams}, "; minigpt.load has"):
            raise UserError(*problems)
        targets = []
        for source in sources:
            with self._lock:
                self._engine.start_translation(source, max_new_tokens)
                targets.append(self._engine.add_tokens(self.max_len))
        return targets


def _window(
    text: str, tokens: int, max_len: int, rate: float | None, numbers: Mapping[str, Any]
) -> int:
    """Checks the arguments of `learn`. Returns the tokens of a window."""
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, Real)):
        raise TypeError(f"`learning_rate` must be a number. Received: {rate!r}")
    longest = max(1, min(max_len, tokens - 1))
    limits = {"steps": (1, 2**31 - 1), "batch_size": (1, 2**16), "seed": (0, 2**31 - 1)}
    limits["length"] = (1, longest)
    problems = [
        ArgumentProblem(name, value, "should be from {} to {}".format(*limits[name]))
        for name, value in numbers.items()
        if value is not None and not limits[name][0] <= as_integer(name, value) <= limits[name][1]
    ]
    if tokens < 2:
        problems.append(ArgumentProblem("text", shortened(text), "should have at least 2 tokens"))
    if rate is not None and not 0 < rate < 1e38:  # The engine computes in float32.
        problems.append(ArgumentProblem("learning_rate", rate, "should be above 0"))
    if problems:
        raise UserError(*problems)
    return min(longest, _WINDOW) if numbers["length"] is None else int(numbers["length"])


def load_portable(path: str | Path) -> PortableTextModel | PortableTranslationModel:
    """Opens a portable file, `model.gguf`, in the engine. Needs NumPy and wasmtime, but no TensorFlow.

    `minigpt.open_model` opens runs too, and does what the engine lacks with TensorFlow.

    Args:
      path: the file, a page that `minigpt export` wrote or that was saved in a browser, or the name of a
        base, such as "english".
    Returns:
      A `PortableTextModel`; a `PortableTranslationModel` if the model was trained on pairs.
    Raises:
      UserError: the file cannot be read, or is not a portable file.
    """
    path = model_path(path if isinstance(path, Path) else as_path("path", path))
    engine = Engine(path)
    is_gpt = engine.key("minigpt.model.kind") == "gpt"
    return (PortableTextModel if is_gpt else PortableTranslationModel)(engine, path)
