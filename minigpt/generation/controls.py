"""What changes the logits of a text token by token: a bias, and functions. Uses no TensorFlow."""

import abc
from collections.abc import Callable
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
        """Begins a text, whose prompt is int32[P], and returns a function for its tokens.

        It is called before each new token, between the penalties and the temperature, with int32[T], the
        ids of the prompt and of the new tokens, and with float32[V], the logits of the next one. It returns
        float32[V]; a token of -inf is not drawn, and if all are -inf, the text ends.
        """


class Controls(LogitsProcessor):
    """The arguments `logits_processor` and `logit_bias` of a text model; the bias is added first.

    Raises:
      UserError: a key of the bias is not one token.
      TypeError: the processor is not a function.
    """

    def __init__(self, process: Any, bias: Any, tokenizer: Vocabulary, vocab_size: int) -> None:
        if not isinstance(process, LogitsProcessor | Callable | None):
            expected = "`logits_processor` must be a function or a LogitsProcessor"
            raise TypeError(f"{expected}. Received: {process!r}")
        self._processor: Any = process
        self._bias = np.zeros(vocab_size, np.float32)
        for key, value in (bias or {}).items():
            ids = tokenizer.encode(key) if isinstance(key, str) else [key]
            if len(ids) != 1 or ids[0] == tokenizer.unknown_id or not 0 <= ids[0] < vocab_size:
                problem = f"should be one token: its text, or an id from 0 to {vocab_size - 1}"
                raise UserError(ArgumentProblem("logit_bias", key, problem))
            self._bias[ids[0]] += value

    def start(self, tokenizer: Vocabulary, prompt_ids: np.ndarray) -> Processor:
        process = self._processor
        if isinstance(process, LogitsProcessor):
            process = process.start(tokenizer, prompt_ids)

        def changed(ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
            found = logits + self._bias
            found = found if process is None else np.asarray(process(ids, found))
            if found.shape != logits.shape or not (found < np.inf).all():
                expected = (
                    f"`logits_processor` and `logit_bias` must give {len(logits)} numbers or -inf"
                )
                raise ValueError(f"{expected}. Received: {found!r}")
            # A banned token stays banned.
            return np.where(np.isneginf(logits), logits, found).astype(np.float32)

        return changed
