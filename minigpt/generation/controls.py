"""Functions that change the logits of a text token by token, and the bias of tokens. Uses no TensorFlow."""

import abc
import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from minigpt.errors import ArgumentProblem, UserError
from minigpt.tokenizers.vocabulary import Vocabulary

# (ids int32[T], logits float32[V]) → float32[V].
Processor = Callable[[np.ndarray, np.ndarray], np.ndarray]


class LogitsProcessor(abc.ABC):
    """A function of the logits that has a state for each text, such as its place in a grammar."""

    @abc.abstractmethod
    def start(self, tokenizer: Vocabulary, prompt_ids: np.ndarray) -> Processor:
        """Begins a text.

        Args:
          tokenizer: the model's tokenizer.
          prompt_ids: int32[P].
        Returns:
          A function that is called before each new token. Its arguments are int32[T], the ids of the prompt
          and of the new tokens, and float32[V], the logits of the next one, after the penalties: -inf for
          tokens that are banned. It returns float32[V]; tokens of -inf are not drawn, and if all are -inf,
          the text ends. The temperature and the filters come after it.
        """


class Controls(LogitsProcessor):
    """The arguments `logit_bias` and `logits_processor` of a text model: the bias is added first.

    Args:
      processor: a `Processor`, a `LogitsProcessor`, or None.
      bias: what is added to the logits: token id or text of one token → number; -inf bans it.
      tokenizer: the tokenizer.
      vocab_size: V.
    Raises:
      UserError: a token is outside the vocabulary, a text is not one token, or a number is nan or inf.
      TypeError: an argument has the wrong type.
    """

    def __init__(
        self, processor: Any, bias: Any, tokenizer: Vocabulary, vocab_size: int
    ) -> None:
        if processor is not None and not callable(getattr(processor, "start", processor)):
            raise TypeError(f"`logits_processor` must be a function. Received: {processor!r}")
        if not isinstance(bias, Mapping):
            raise TypeError(f"`logit_bias` must be a dictionary. Received: {bias!r}")
        self._processor = processor
        self._bias = np.zeros(vocab_size, np.float32)
        problems: list[str] = []
        for key, value in bias.items():
            if isinstance(value, bool) or not isinstance(value, Real):
                raise TypeError(f"`logit_bias` must have numbers as values. Received: {value!r}")
            token, problem = _token(key, tokenizer, vocab_size)
            if math.isnan(value) or value == math.inf:
                problem = f"should be a number or -inf, not {value}"
            if problem:
                problems.append(ArgumentProblem("logit_bias", key, problem))
            else:
                self._bias[token] += value
        if problems:
            raise UserError(*problems)

    def start(self, tokenizer: Vocabulary, prompt_ids: np.ndarray) -> Processor:
        process = self._processor
        if isinstance(process, LogitsProcessor):
            process = process.start(tokenizer, prompt_ids)

        def controlled(ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
            changed = logits + self._bias
            if process is not None:
                changed = _checked(process(ids, changed.copy()), logits.shape)
            # A token that is banned stays banned.
            return np.where(np.isneginf(logits), logits, changed)

        return controlled


def controls_of(
    settings: dict[str, Any], tokenizer: Vocabulary, vocab_size: int
) -> Controls | None:
    """Takes `logits_processor` and `logit_bias` out of settings; None if there is neither."""
    processor, bias = settings.pop("logits_processor", None), settings.pop("logit_bias", None)
    if processor is None and not bias:
        return None
    return Controls(processor, {} if bias is None else bias, tokenizer, vocab_size)


def _token(key: Any, tokenizer: Vocabulary, vocab_size: int) -> tuple[int, str | None]:
    """Returns the id of a key of `logit_bias`, and what is wrong with the key."""
    if isinstance(key, str):
        ids = tokenizer.encode(key).tolist()
        is_token = len(ids) == 1 and ids[0] != tokenizer.unknown_id
        return ids[0] if is_token else 0, (
            None if is_token else f"should be one token of the vocabulary; its ids are {ids}"
        )
    if isinstance(key, bool) or not isinstance(key, Integral):
        raise TypeError(f"`logit_bias` must have ids or texts as keys. Received: {key!r}")
    is_inside = 0 <= key < vocab_size
    return int(key), None if is_inside else f"should be an id from 0 to {vocab_size - 1}"


def _checked(logits: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Returns what a processor has returned as float32[V]."""
    found = np.asarray(logits)
    if found.shape != shape or found.dtype.kind not in "fiu":
        raise TypeError(
            f"`logits_processor` must return numbers of shape {shape}. Received: {found.dtype} of "
            f"shape {found.shape}"
        )
    if np.isnan(found).any() or np.isposinf(found).any():
        raise ValueError("`logits_processor` must not return nan or inf")
    return found.astype(np.float32)
