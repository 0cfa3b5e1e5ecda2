"""What changes the logits of a text token by token: a bias, and functions. Uses no TensorFlow."""

import abc
import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from minigpt.errors import ArgumentProblem, UserError, as_integer
from minigpt.tokenizers.vocabulary import Vocabulary

# (ids int32[T], logits float32[V]) → float32[V].
Processor = Callable[[np.ndarray, np.ndarray], np.ndarray]


class LogitsProcessor(abc.ABC):
    """A function of the logits that has a state for each text, such as its place in a grammar."""

    @abc.abstractmethod
    def start(self, tokenizer: Vocabulary, prompt_ids: np.ndarray) -> Processor:
        """Begins a text, whose prompt is int32[P], and returns a function for its tokens.

        It is called before each new token, between the penalties and the temperature, with int32[T], the
        ids of the prompt and of the new tokens, and with float32[V], the logits of the next one. It returns
        float32[V]; a token of -inf is not drawn, and if all are -inf, the text ends.
        """


class Controls(LogitsProcessor):
    """The arguments `logit_bias`, which is added first, and `logits_processor` of `BaseTextModel.samples`.

    Raises:
      UserError: a key of the bias is not one token, or a value is nan or inf.
      TypeError: an argument has the wrong type.
    """

    def __init__(self, process: Any, bias: Any, tokenizer: Vocabulary, vocab_size: int) -> None:
        if not isinstance(process, LogitsProcessor | Callable | None):
            expected = "`logits_processor` must be a function or a LogitsProcessor"
            raise TypeError(f"{expected}. Received: {process!r}")
        if not isinstance(bias, Mapping | None):
            expected = "`logit_bias` must be a mapping from tokens to numbers"
            raise TypeError(f"{expected}. Received: {bias!r}")
        self._processor: Any = process
        self._bias = np.zeros(vocab_size, np.float32)
        problems = []
        for key, value in (bias or {}).items():
            if isinstance(value, bool) or not isinstance(value, Real):
                raise TypeError(f"`logit_bias[{key!r}]` must be a number. Received: {value!r}")
            ids = tokenizer.encode(key) if isinstance(key, str) else [as_integer("logit_bias", key)]
            if len(ids) != 1 or ids[0] == tokenizer.unknown_id or not 0 <= ids[0] < vocab_size:
                problem = f"should be one token: its text, or an id from 0 to {vocab_size - 1}"
                problems.append(ArgumentProblem("logit_bias", key, problem))
            elif math.isnan(value) or value == math.inf:
                problems.append(ArgumentProblem("logit_bias", value, "should be a number or -inf"))
            else:
                self._bias[ids[0]] += value
        if problems:
            raise UserError(*problems)

    def start(self, tokenizer: Vocabulary, prompt_ids: np.ndarray) -> Processor:
        process = self._processor
        if isinstance(process, LogitsProcessor):
            process = process.start(tokenizer, prompt_ids)

        def changed(ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
            found: Any = logits + self._bias
            if process is not None:
                found = np.asarray(process(ids, found))
                if found.shape != logits.shape or not (found < math.inf).all():
                    expected = f"`logits_processor` must return {len(logits)} numbers or -inf"
                    raise ValueError(f"{expected}. Received: {found!r}")
            # A banned token stays banned.
            return np.where(np.isneginf(logits), logits, found).astype(np.float32)

        return changed
