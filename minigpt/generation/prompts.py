"""Checks of prompts and of other text that is given to a model."""

import re
import reprlib
from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from minigpt.errors import ArgumentProblem, UserError
from minigpt.tokenizers.vocabulary import Vocabulary

# White space that is stripped from sentences, here, in pair files and in exported graphs.
WHITE_SPACE = " \t\n\v\f\r"


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
    surrogate = re.search("[\ud800-\udfff]", prompt)
    if surrogate:
        problem = (
            f"not valid Unicode at character {surrogate.start()} (half of a surrogate pair, or a byte "
            "that is not UTF-8); should be UTF-8"
        )
        raise UserError(ArgumentProblem(name, shortened(prompt), problem))


class Prompt(NamedTuple):
    """A prompt: its text, and its token ids, int32[P]."""

    text: str
    ids: np.ndarray


def as_prompts(name: str, value: Any, tokenizer: Vocabulary) -> list[Prompt]:
    """Returns the prompts that an argument holds.

    Args:
      name: the argument's name, for messages.
      value: a text or a sequence of texts; or a sequence of token ids, or several such sequences, also
        as arrays or tensors.
      tokenizer: the tokenizer. Trailing padding of its vocabulary is removed from ids.
    Raises:
      TypeError: it is none of these.
      ValueError: an id is outside the vocabulary, or `encode` refuses a text.
      UserError: a text is not valid Unicode.
    """
    value = as_list(value)
    if _is_ids(value) and value:
        value = [value]
    values = value if isinstance(value, list) else [value]
    return [_as_prompt(name, as_list(item), tokenizer) for item in values]


def _as_prompt(name: str, value: Any, tokenizer: Vocabulary) -> Prompt:
    if isinstance(value, str):
        check_prompt(value, name)
        text, ids = value, []
    elif _is_ids(value):
        ids = [int(i) for i in value]
        outside = [i for i in ids if not 0 <= i < (tokenizer.vocab_size or 2**31)]
        if outside:
            raise ValueError(
                f"`{name}` must have ids of the vocabulary, from 0 to {tokenizer.vocab_size - 1:,}. "
                f"Received: {outside[0]:,}"
            )
        while ids and ids[-1] == tokenizer.padding_id:
            ids.pop()
        text = tokenizer.decode_valid(ids)
    else:
        raise TypeError(
            f"`{name}` must be a text, token ids, or a sequence of texts or of lists of token ids. "
            f"Received: {reprlib.repr(value)} of type {type(value).__name__}"
        )
    try:
        return Prompt(text, np.array(ids or tokenizer.encode(text), np.int32))
    except ValueError as error:
        raise ValueError(f"`{name}`: {error}") from error


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(i, Integral) and not isinstance(i, bool) for i in value
    )


def as_list(value: Any) -> Any:
    """Returns a sequence, an array or a tensor as a list; other values, texts too, as they are."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return value.tolist()
    is_many = isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict))
    return list(value) if is_many else value


def as_texts(name: str, value: Any) -> list[str]:
    """Returns the list of texts that an argument holds: one string, or several.

    Raises:
      TypeError: it is neither.
    """
    texts = [value] if isinstance(value, str) else value
    texts = list(texts) if isinstance(texts, Iterable) else [texts]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(
                f"`{name}` must be a string or a sequence of strings. Received: {text!r} of type "
                f"{type(text).__name__}"
            )
    return texts


def describe(model: Any, tokenizer: Any) -> str:
    """Returns the sizes of a model and its tokenizer, for a repr."""
    return (
        f"{type(model).__name__} of {model.count_params():,} parameters, max_len={model.max_len}, "
        f"{tokenizer.kind} vocabulary of {tokenizer.vocab_size:,}"
    )
