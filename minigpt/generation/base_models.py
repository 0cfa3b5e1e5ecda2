"""The common base of all text models, whatever computes them: arguments, checks, samples, warnings.

Does not use TensorFlow. `text_models` computes with TensorFlow, `minigpt.targets.gguf.text_model` with the
engine of the portable file.
"""

import abc
import random
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from minigpt.config.sampling import TextSettings, settings_of
from minigpt.errors import ArgumentProblem, UserError
from minigpt.generation.controls import Controls
from minigpt.notices import LOGGER
from minigpt.tokenizers.chat_format import Messages, check_messages
from minigpt.tokenizers.vocabulary import Vocabulary

# White space that is stripped from sentences, here, in pair files and in exported graphs.
WHITE_SPACE = " \t\n\v\f\r"
_SENTENCE_END = re.compile(r"""[.!?…؟۔।]["'”’»)\]]*(?=\s|$)|[。！？][”’」』）]*""")


class Prompt(NamedTuple):
    """A prompt: its text, and its token ids, int32[P]."""

    text: str
    ids: np.ndarray


@dataclass(frozen=True)
class Sample:
    """A prompt and its continuation.

    Attributes:
      prompt, seed: the prompt, as given, and the seed of the draws.
      text: the continuation, without the stop string that ended it. Without a stop string, the decoded
        prompt followed by `text` equals the decoded sequence.
      tokens: ids of the continuation, up to the token that completed the stop string.
    """

    prompt: str
    text: str
    seed: int
    tokens: list[int]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def whole_sentences(sample: Sample, max_new_tokens: int) -> str:
    """Returns the text of a sample; if the limit has cut it, up to the end of its last sentence."""
    ends = list(_SENTENCE_END.finditer(sample.text))
    is_cut = ends and len(sample.tokens) >= max_new_tokens
    return sample.text[: ends[-1].end()] if is_cut else sample.text


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
        """
        check_prompt(text, "text")
        return self.tokenizer.count_unknown(text)


class BaseTextModel(ModelWithTokenizer):
    """A model that continues text; its subclasses compute the tokens.

    Attributes:
      defaults: the settings of the run, for those that a method is not given.
    """

    defaults: Mapping[str, Any] = MappingProxyType({})

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | None = None,
        num_samples: int = 1,
        **settings: Any,
    ) -> list[str]:
        """Returns the continuations of prompts; arguments and exceptions are those of `samples`."""
        settings |= {"seed": seed, "num_samples": num_samples}
        return [sample.text for sample in self.iter_samples(prompts, max_new_tokens, **settings)]

    def samples(
        self,
        prompts: str | Sequence[str] = "",
        max_new_tokens: int = 40,
        *,
        seed: int | Sequence[int] | None = None,
        num_samples: int = 1,
        **settings: Any,
    ) -> list[Sample]:
        """Continues prompts, and returns the prompt, seed and token ids of each text too.

        Args:
          prompts: one or more texts; "" starts a document.
          max_new_tokens: maximum number of tokens to add; the text may end sooner.
          seed: one for all prompts, or one per prompt. Without it, texts differ each time; a message of the
            logger has the seed that repeats them, and so does each sample.
          num_samples: samples per prompt; sample i uses seed + i.
          **settings: other settings of `[sampling]`, such as temperature and top_k: docs/settings.md. Those
            that are not given are those of the run (`defaults`). Two more:
            logits_processor: a function of the ids of a text, int32[T], and of the logits of its next
              token, float32[V], which returns other logits; or a `LogitsProcessor`. See there.
            logit_bias: token id, or text of one token → number that is added to its logit.
            Instead of the settings, `sampling`: a checked `minigpt.config.sampling.TextSettings`.
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
        seed: int | Sequence[int] | None = None,
        num_samples: int = 1,
        **settings: Any,
    ) -> Iterator[Sample]:
        """Yields what `samples` returns, for more samples than fit into memory."""
        prompts = as_texts("prompts", prompts)
        checked, controls = self._checked(max_new_tokens, settings)
        seeds = seeds_of(given_or_drawn(seed, checked), len(prompts), num_samples)
        encoded = [Prompt(prompt, self.tokenizer.encode(prompt)) for prompt in prompts]
        samples = self._samples(encoded, seeds, checked, int(num_samples), controls)
        self._warn_of_unknown(prompts, stacklevel=4)  # Where `generate` or `samples` is called.
        return samples

    def stream(
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        seed: int | None = None,
        **settings: Any,
    ) -> Iterator[str]:
        """Yields the text that `generate` returns for one prompt, in pieces as it is generated.

        Args:
          prompt, max_new_tokens, seed, **settings: as for `samples`.
        Raises:
          UserError: a setting or the prompt cannot be used.
          TypeError: `prompt` is not a string, or `seed` not an integer.
        """
        check_prompt(prompt)
        checked, controls = self._checked(max_new_tokens, settings)
        (seed,) = seeds_of(given_or_drawn(seed, checked), 1)
        encoded = Prompt(prompt, self.tokenizer.encode(prompt))
        pieces = self._pieces(encoded, seed, checked, controls)
        self._warn_of_unknown([prompt], stacklevel=3)
        return pieces

    def chat(
        self,
        messages: str | Messages,
        max_new_tokens: int | None = None,
        *,
        seed: int | None = None,
        **settings: Any,
    ) -> str:
        """Answers the last question of a dialogue. Needs a model that was trained on dialogues.

        Args:
          messages: a question; or mappings with `role` ("system", "user" or "assistant") and `content`:
            perhaps a system message, then questions and answers in turn, a question at the end. The oldest
            are left out if they do not fit into the context.
          max_new_tokens: maximum number of tokens of the answer; None: as many as fit.
          seed, **settings: as for `samples`.
        Raises:
          UserError: the model was not trained on dialogues, or the messages or a setting cannot be used.
        """
        return "".join(self.stream_chat(messages, max_new_tokens, seed=seed, **settings))

    def stream_chat(
        self,
        messages: str | Messages,
        max_new_tokens: int | None = None,
        *,
        seed: int | None = None,
        **settings: Any,
    ) -> Iterator[str]:
        """Yields what `chat` returns in pieces as it is generated; arguments are those of `chat`."""
        prompt = chat_prompt(messages, self.tokenizer, self.max_len, max_new_tokens)
        if max_new_tokens is None:
            max_new_tokens = self.max_len - len(prompt.ids)
        checked, controls = self._checked(max_new_tokens, settings)
        (seed,) = seeds_of(given_or_drawn(seed, checked), 1)
        return self._pieces(prompt, seed, checked, controls)

    def logits(self, token_ids: Any) -> np.ndarray:
        """Scores the token after each one: int[B, T], T ≤ max_len → float32[B, T, V].

        Raises:
          ValueError: they are not such integers, or an id is outside the vocabulary.
        """
        return self._logits(as_token_ids(token_ids, self.max_len, self.vocab_size))

    def log_probabilities(self, text: str) -> np.ndarray:
        """Computes the natural logarithm of the probability of each token of a text, given those before it.

        The text is read as a document, as by `TextModel.evaluate`: after an end token, in adjacent windows
        of max_len tokens, each without those before it. The mean is minus the `loss` of the evaluation.

        Returns:
          float32[T + 1]: of the T tokens of `tokenizer.encode(text)`, and of the end token after them.
        Raises:
          UserError: the text is not valid Unicode.
        """
        check_prompt(text, "text")
        end = [self.tokenizer.end_id]
        ids = np.concatenate([end, self.tokenizer.encode(text), end]).astype(np.int32)
        parts = []
        for start in range(0, len(ids) - 1, self.max_len):
            targets = ids[start + 1 : start + 1 + self.max_len]
            logits = self._logits(ids[None, start : start + len(targets)])[0]
            parts.append(target_log_probabilities(logits, targets))
        return np.concatenate(parts).astype(np.float32)

    def embed(self, texts: str | Sequence[str]) -> np.ndarray:
        """Computes a vector for each text: the mean over its tokens of the final hidden states.

        These are the input of the head, which `TextModel.latents` returns. The tokens are those of
        `tokenizer.encode(text)`, without an end token. A text of more than max_len tokens is read in
        adjacent windows of max_len, each without those before it. The vectors are not normalized.

        Returns:
          float32[N, D], D the width of the model.
        Raises:
          UserError: there is no text, or one has no tokens or is not valid Unicode.
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
        if (sampling := given.pop("sampling", None)) is not None:
            settings = replace(sampling, max_new_tokens=max_new_tokens)
        else:
            settings = settings_of(
                {**self.defaults, "max_new_tokens": max_new_tokens, **given}, "gpt"
            )
        self.tokenizer.check_banned(settings.banned_tokens)
        self._check(settings)
        return settings, controls

    def _check(self, settings: TextSettings) -> None:
        """Raises a `UserError` if the model does not have a setting."""

    @abc.abstractmethod
    def _samples(
        self, prompts: list[Prompt], seeds: list[int], settings: Any, number: int, controls: Any
    ) -> Iterator[Sample]:
        """Continues each prompt `number` times; raises a `UserError` at once if that is not possible."""

    @abc.abstractmethod
    def _pieces(self, prompt: Prompt, seed: int, settings: Any, controls: Any) -> Iterator[str]:
        """Yields a continuation as it is generated."""

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
        texts = as_texts("texts", texts)
        encoded = self.tokenizer.encode_many([text.strip(WHITE_SPACE) for text in texts])
        sources = [np.append(ids, self.tokenizer.end_id).astype(np.int32) for ids in encoded]
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

    @abc.abstractmethod
    def _targets(
        self, sources: list[np.ndarray], max_new_tokens: int, beams: int, length_penalty: float
    ) -> Sequence[Sequence[int] | np.ndarray]:
        """Returns the token ids of each translation, without end tokens; refuses beams that it lacks.

        `sources` are int32[S] each, end token included, 2 ≤ S ≤ max_len; 0 ≤ max_new_tokens ≤ max_len.
        """


def target_log_probabilities(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns the natural logarithm of the probability of each target: float[T, V], int[T] → float64[T]."""
    logits = logits.astype(np.float64)
    logits -= logits.max(1, keepdims=True)
    return logits[np.arange(len(targets)), targets] - np.log(np.exp(logits).sum(1))


def unknown_tokens_message(name: str, count: int, tokenizer: Vocabulary) -> str:
    """Returns the message about the text called `name`, of which `tokenizer` counts `count` as unknown."""
    unit, form = ("characters", "bytes") if tokenizer.byte_ids else ("tokens", "[UNK]")
    return f"{name}: {count} of its {unit} are unknown to the tokenizer and are read as {form}"


def shortened(text: str) -> str:
    """Returns a text, or the beginning of a long one, for a message."""
    return text if len(text) <= 100 else f"{text[:100]}..."


def check_prompt(prompt: str, name: str = "prompt") -> None:
    """Raises a `UserError` if the argument `name` is not valid Unicode, a `TypeError` if not a string."""
    if not isinstance(prompt, str):
        raise TypeError(f"`{name}` must be a string. Received: {prompt!r}")
    # Bytes on a command line that are not UTF-8 arrive as lone surrogates.
    if surrogate := re.search("[\ud800-\udfff]", prompt):
        problem = f"not valid Unicode at character {surrogate.start()}; should be UTF-8"
        raise UserError(ArgumentProblem(name, shortened(prompt), problem))


def chat_prompt(
    messages: Any, tokenizer: Vocabulary, max_len: int, max_new_tokens: int | None
) -> Prompt:
    """Returns the prompt of the next answer of a dialogue, whose text is the last question.

    The oldest messages are left out if they and the answer do not fit into the context. An answer of any
    length, max_new_tokens = None, needs a quarter of the context.

    Raises:
      UserError: the model was not trained on dialogues, the messages cannot be used, or the last question
        is too long.
    """
    if tokenizer.chat is None:
        raise UserError(
            "the model was not trained on dialogues and has no roles; it continues text, "
            "with `generate` or `minigpt sample`"
        )
    checked = check_messages(as_list(messages), ends_with="user")
    for message in checked:
        check_prompt(message["content"], "content")
    room = max_len - min(max_len // 4 if max_new_tokens is None else max_new_tokens, max_len // 2)
    while True:
        (ids,) = tokenizer.encode_dialogues([checked])
        first = int(checked[0]["role"] == "system")
        if len(ids) <= room:
            return Prompt(checked[-1]["content"], ids)
        if len(checked) - first == 1:
            raise UserError(
                f"the last message: the prompt has {len(ids):,} tokens; should have at most {room:,}, so "
                f"that an answer fits into the context of {max_len:,}"
            )
        del checked[first : first + 2]


def as_texts(name: str, value: Any) -> list[str]:
    """Returns the texts that an argument holds, one or several, each checked as by `check_prompt`."""
    texts = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    for text in texts:
        check_prompt(text, name)
    return texts


def given_or_drawn(seed: Any, settings: TextSettings, says: bool = True) -> Any:
    """Returns the seed; for None another one each time, which `says` logs. It is 0 if nothing is drawn."""
    if seed is not None:
        return seed
    if settings.temperature == 0 or settings.top_k == 1:
        return 0
    seed = random.randrange(1_000_000)
    if says:
        LOGGER.info("seed %d", seed)
    return seed


def seeds_of(seed: Any, count: int, num_samples: int = 1) -> list[int]:
    """Returns `count` seeds from one integer or from a sequence of them; sample i uses seed + i."""
    seeds = np.asarray(seed)
    if (seeds.size and seeds.dtype.kind not in "iu") or seeds.shape not in ((), (count,)):
        raise TypeError(f"`seed` must be one integer or one per prompt. Received: {seed!r}")
    if not isinstance(num_samples, Integral):
        raise TypeError(f"`num_samples` must be an integer. Received: {num_samples!r}")
    if num_samples < 1:
        raise UserError(ArgumentProblem("num_samples", num_samples, "should be at least 1"))
    found, limit = np.broadcast_to(seeds, count).tolist(), 2**31 - num_samples
    problem = f"should be from 0 to {limit}, because sample i uses seed + i"
    if wrong := [ArgumentProblem("seed", s, problem) for s in found if not 0 <= s <= limit]:
        raise UserError(*wrong)
    return found


def as_token_ids(token_ids: Any, max_len: int, vocab_size: int) -> np.ndarray:
    """Returns token ids as int32[B, T]; a `ValueError` says what they should be."""
    ids = np.asarray(token_ids)
    are_integers = ids.dtype.kind in "iu" or not ids.size
    is_shaped = ids.ndim == 2 and ids.shape[1] <= max_len
    if not (are_integers and is_shaped and ((ids >= 0) & (ids < vocab_size)).all()):
        raise ValueError(
            f"`token_ids` must be int[B, T] with T ≤ max_len = {max_len}, from 0 to {vocab_size - 1}. "
            f"Received: {ids.dtype}{list(ids.shape)}"
        )
    return ids.astype(np.int32)


def as_list(value: Any) -> Any:
    """Returns a sequence, an array or a tensor as a list; other values, texts too, as they are."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return value.tolist()
    is_many = isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict))
    return list(value) if is_many else value
