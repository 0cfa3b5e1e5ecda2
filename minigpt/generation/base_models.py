"""The common base of all text models, whatever computes them: arguments, checks, samples, warnings.

Does not use TensorFlow. `text_models` computes with TensorFlow, `minigpt.targets.gguf.text_model` with the
engine of the portable file.
"""

import abc
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from minigpt.config.sampling import TextSettings, settings_of
from minigpt.errors import ArgumentProblem, UserError, as_integer
from minigpt.generation.controls import Controls
from minigpt.generation.prompts import (
    WHITE_SPACE,
    Prompt,
    as_texts,
    as_token_ids,
    chat_prompt,
    check_prompt,
    seeds_of,
    unknown_tokens_message,
)
from minigpt.tokenizers.chat_format import Messages


@dataclass(frozen=True)
class Sample:
    """A prompt and its continuation.

    Attributes:
      prompt: the prompt, as given.
      text: the continuation, without the stop string that ended it. Without a stop string, the decoded
        prompt followed by `text` equals the decoded sequence.
      seed: the seed of the draws.
      tokens: ids of the continuation, up to the token that completed the stop string.
    """

    prompt: str
    text: str
    seed: int
    tokens: list[int]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class ModelWithTokenizer(abc.ABC):
    """A model together with its tokenizer.

    Attributes:
      tokenizer: the model's tokenizer, a `Vocabulary` with the method `count_unknown`.
      max_len: the context, in tokens.
      vocab_size: V.
    """

    tokenizer: Any
    max_len: int
    vocab_size: int

    def unknown_tokens(self, text: str) -> int:
        """Returns the number of words or characters of a text that the vocabulary does not contain.

        The tokenizer reads them as `[UNK]`, or a character as the bytes of its UTF-8.

        Raises:
          UserError: the text is not valid Unicode.
          TypeError: it is not a string.
        """
        check_prompt(text, "text")
        return self.tokenizer.count_unknown(text)


class BaseTextModel(ModelWithTokenizer):
    """A model that continues text. A subclass says how tokens are computed."""

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] = 0,
        num_samples: int = 1,
        **settings: Any,
    ) -> list[str]:
        """Returns the continuations of prompts; arguments and exceptions are those of `samples`."""
        how = {"seed": seed, "num_samples": num_samples, **settings}
        return [sample.text for sample in self.iter_samples(prompts, max_new_tokens, **how)]

    def samples(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] = 0,
        num_samples: int = 1,
        **settings: Any,
    ) -> list[Sample]:
        """Continues prompts, and returns the prompt, seed and token ids of each text too.

        Args:
          prompts: one or more texts; "" starts a document.
          max_new_tokens: maximum number of tokens to add; the text may end sooner.
          seed: one for all prompts, or one per prompt.
          num_samples: samples per prompt; sample i uses seed + i.
          **settings: other settings of `[sampling]`, such as temperature and top_k, with the defaults of
            their table, `minigpt.config.sampling.SETTINGS` and docs/settings.md. Two more:
            logits_processor: a function of the ids of a text, int32[T], and of the logits of its next
              token, float32[V], which returns other logits; or a `LogitsProcessor`. See there.
            logit_bias: token id, or text of one token → number that is added to its logit.
        Raises:
          UserError: a setting or a prompt cannot be used, or one sample does not fit into memory.
          TypeError: `prompts` contains something other than strings, `num_samples` is no integer, or `seed`
            is neither one nor one per prompt.
        """
        how = {"seed": seed, "num_samples": num_samples, **settings}
        return list(self.iter_samples(prompts, max_new_tokens, **how))

    def iter_samples(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] = 0,
        num_samples: int = 1,
        **settings: Any,
    ) -> Iterator[Sample]:
        """Yields what `samples` returns, for more samples than fit into memory.

        Arguments and exceptions are those of `samples`.
        """
        prompts = as_texts("prompts", prompts)
        num_samples = as_integer("num_samples", num_samples)
        seeds = seeds_of(seed, len(prompts), num_samples)
        checked, controls = self._checked(max_new_tokens, settings)
        encoded = [self._prompt(prompt) for prompt in prompts]
        samples = self._samples(encoded, seeds, checked, num_samples, controls)
        self._warn_of_unknown(prompts, stacklevel=4)  # Where `generate` or `samples` is called.
        return samples

    def stream(
        self, prompt: str = "", max_new_tokens: int = 40, *, seed: int = 0, **settings: Any
    ) -> Iterator[str]:
        """Yields the text that `generate` returns for one prompt, in pieces as it is generated.

        Args:
          prompt, max_new_tokens, seed, **settings: as for `samples`.
        Raises:
          UserError: a setting or the prompt cannot be used; several beams cannot be streamed.
          TypeError: `prompt` is not a string, or `seed` not an integer.
        """
        check_prompt(prompt)
        (seed,) = seeds_of(seed, 1)
        checked, controls = self._checked(max_new_tokens, settings)
        pieces = self._pieces(self._prompt(prompt), seed, checked, controls)
        self._warn_of_unknown([prompt], stacklevel=3)
        return pieces

    def chat(
        self,
        messages: str | Messages,
        max_new_tokens: int | None = None,
        *,
        seed: int = 0,
        **settings: Any,
    ) -> str:
        """Answers the last question of a dialogue. Needs a model that was trained on dialogues.

        Args:
          messages: a question; or mappings with `role` ("system", "user" or "assistant") and `content`:
            perhaps a system message, then questions and answers in turn, a question at the end. The oldest
            are left out if they do not fit into the context.
          max_new_tokens: maximum number of tokens of the answer; None: as many as fit.
          seed, **settings: as for `samples`.
        Returns:
          The answer.
        Raises:
          UserError: the model was not trained on dialogues, or the messages or a setting cannot be used.
        """
        return "".join(self.stream_chat(messages, max_new_tokens, seed=seed, **settings))

    def stream_chat(
        self,
        messages: str | Messages,
        max_new_tokens: int | None = None,
        *,
        seed: int = 0,
        **settings: Any,
    ) -> Iterator[str]:
        """Yields what `chat` returns in pieces as it is generated; arguments are those of `chat`."""
        prompt = chat_prompt(messages, self.tokenizer, self.max_len, max_new_tokens)
        (seed,) = seeds_of(seed, 1)
        if max_new_tokens is None:
            max_new_tokens = self.max_len - len(prompt.ids)
        checked, controls = self._checked(max_new_tokens, settings)
        return self._pieces(prompt, seed, checked, controls)

    def _prompt(self, text: str) -> Prompt:
        return Prompt(text, self.tokenizer.encode(text))

    def logits(self, token_ids: Any) -> np.ndarray:
        """Scores every next token.

        Args:
          token_ids: int[B, T], T ≤ max_len.
        Returns:
          float32[B, T, V]: row t scores the token at t + 1.
        Raises:
          ValueError: they are not such integers, or an id is outside the vocabulary.
        """
        return self._logits(as_token_ids(token_ids, self.max_len, self.vocab_size))

    def log_probabilities(self, text: str) -> np.ndarray:
        """Computes the natural logarithm of the probability of each token of a text, given those before it.

        The text is read as a document, as by `TextModel.evaluate`: after an end token, in adjacent windows
        of max_len tokens, each without those before it. The mean is minus the `loss` of the evaluation.

        Args:
          text: the text.
        Returns:
          float32[T + 1]: of the T tokens of `tokenizer.encode(text)`, and of the end token after them.
        Raises:
          UserError: the text is not valid Unicode.
          TypeError: it is not a string.
        """
        check_prompt(text, "text")
        end = [self.tokenizer.end_id]
        ids = np.concatenate([end, self.tokenizer.encode(text), end]).astype(np.int32)
        parts = []
        for start in range(0, len(ids) - 1, self.max_len):
            targets = ids[start + 1 : start + 1 + self.max_len]
            logits = self._logits(ids[None, start : start + len(targets)])[0].astype(np.float64)
            own = np.take_along_axis(logits, targets[:, None], 1)[:, 0]
            parts.append(own - np.logaddexp.reduce(logits, 1))
        return np.concatenate(parts).astype(np.float32)

    def embed(self, texts: str | Sequence[str]) -> np.ndarray:
        """Computes a vector for each text: the mean over its tokens of the final hidden states.

        These are the input of the head, which `TextModel.latents` returns. The tokens are those of
        `tokenizer.encode(text)`, without an end token. A text of more than max_len tokens is read in
        adjacent windows of max_len, each without those before it. The vectors are not normalized; those of
        `minigpt serve` have length 1.

        Args:
          texts: one or more texts.
        Returns:
          float32[N, D], D the width of the model.
        Raises:
          UserError: there is no text, or one has no tokens or is not valid Unicode.
          TypeError: `texts` contains something other than strings.
        """
        texts = as_texts("texts", texts)
        encoded = [self.tokenizer.encode(text) for text in texts]
        if not encoded or not all(map(len, encoded)):
            raise UserError("texts: should be at least one text, each with at least one token")
        means, size = [], self.max_len
        for ids in encoded:
            parts = [ids[at : at + size] for at in range(0, len(ids), size)]
            means.append(np.average([*map(self._mean_latent, parts)], 0, [*map(len, parts)]))
        return np.stack(means).astype(np.float32)

    def _checked(
        self, max_new_tokens: int, given: dict[str, Any]
    ) -> tuple[TextSettings, Controls | None]:
        """Returns the checked settings, and what changes the logits, if anything does."""
        process, bias = given.pop("logits_processor", None), given.pop("logit_bias", None)
        controls = None
        if process is not None or bias:
            controls = Controls(process, bias, self.tokenizer, self.vocab_size)
        settings = settings_of({"max_new_tokens": max_new_tokens, **given})
        problem = f"should be an id from 0 to {self.vocab_size - 1}"
        if wrong := [token for token in settings.banned_tokens if token >= self.vocab_size]:
            raise UserError(*(ArgumentProblem("banned_tokens", w, problem) for w in wrong))
        self._check(settings)
        return settings, controls

    def _check(self, settings: TextSettings) -> None:
        """Raises a `UserError` if the model does not have a setting."""

    @abc.abstractmethod
    def _samples(
        self, prompts: list[Prompt], seeds: list[int], settings: Any, number: int, controls: Any
    ) -> Iterator[Sample]:
        """Continues each prompt `number` times.

        Raises:
          UserError: at once, if the arguments cannot be used.
        """

    @abc.abstractmethod
    def _pieces(self, prompt: Prompt, seed: int, settings: Any, controls: Any) -> Iterator[str]:
        """Yields a continuation as it is generated; exceptions are those of `_samples`."""

    @abc.abstractmethod
    def _logits(self, token_ids: np.ndarray) -> np.ndarray:
        """int32[B, T] → float32[B, T, V]."""

    @abc.abstractmethod
    def _mean_latent(self, ids: np.ndarray) -> np.ndarray:
        """int[T], 1 ≤ T ≤ max_len → float32[D], the mean of the latents."""

    def _warn_of_unknown(self, prompts: Sequence[str], stacklevel: int) -> None:
        for prompt in prompts:
            if unknown := self.tokenizer.count_unknown(prompt):
                message = unknown_tokens_message(f"prompt {prompt!r}", unknown, self.tokenizer)
                warnings.warn(message, stacklevel=stacklevel)


class BaseTranslationModel(ModelWithTokenizer):
    """A model that translates. A subclass says how targets are computed."""

    def translate(
        self,
        texts: str | Sequence[str],
        beams: int = 1,
        length_penalty: float = 1.0,
        max_new_tokens: int | None = None,
    ) -> list[str]:
        """Translates sentences.

        A source that is longer than max_len is cut, with a `UserWarning`.

        Args:
          texts: one or more sentences; surrounding white space is ignored, and a sentence of white space
            gives "".
          beams: width of the beam search; 1 is greedy.
          length_penalty: the score of a beam is the sum of its log-probabilities divided by its length to
            this power; larger values favor longer translations.
          max_new_tokens: maximum number of tokens of a translation; the model's max_len if None.
        Raises:
          UserError: a text is not valid Unicode, the model has no beam search, or a number is wrong.
          TypeError: `texts` contains something other than strings.
        """
        limit = self.max_len if max_new_tokens is None else max_new_tokens
        settings_of({"beams": beams, "length_penalty": length_penalty, "max_new_tokens": limit})
        limit = min(limit, self.max_len)
        self._check_beams(beams)
        texts = as_texts("texts", texts)
        sources = self._sources(texts)
        for index, source in enumerate(sources):
            if len(source) > self.max_len:
                warnings.warn(
                    f"source {index + 1} has {len(source)} tokens, end token included: only the first "
                    f"{self.max_len - 1} are translated, because model.max_len = {self.max_len}",
                    stacklevel=2,
                )
                sources[index] = np.append(source[: self.max_len - 1], source[-1:])
        # A source of only the end token has no translation.
        nonempty = [index for index, source in enumerate(sources) if len(source) > 1]
        targets = self._targets([sources[i] for i in nonempty], limit, beams, length_penalty)
        translations = [""] * len(texts)
        for index, ids in zip(nonempty, targets, strict=True):
            translations[index] = self.tokenizer.decode(ids)
        return translations

    def unknown_tokens(self, text: str) -> int:
        check_prompt(text, "text")  # Before it is stripped.
        return super().unknown_tokens(text.strip(WHITE_SPACE))

    def _sources(self, texts: Sequence[str]) -> list[np.ndarray]:
        """int32[S] each, end token included."""
        encoded = self.tokenizer.encode_many([text.strip(WHITE_SPACE) for text in texts])
        return [np.append(ids, self.tokenizer.end_id).astype(np.int32) for ids in encoded]

    def _check_beams(self, beams: int) -> None:
        """Raises a `UserError` if the model does not have as many beams."""

    @abc.abstractmethod
    def _targets(
        self, sources: list[np.ndarray], max_new_tokens: int, beams: int, length_penalty: float
    ) -> Sequence[Sequence[int] | np.ndarray]:
        """Returns the token ids of each translation, without end tokens.

        Args:
          sources: int32[S] each, end token included, 2 ≤ S ≤ max_len.
          max_new_tokens: from 0 to max_len.
          beams, length_penalty: as for `translate`.
        """
