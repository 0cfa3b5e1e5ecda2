"""Checks of prompts and of other text that is given to a model."""

import re
from collections.abc import Iterable
from typing import Any

from minigpt.errors import ArgumentProblem, UserError
from minigpt.tokenizers.vocabulary import Vocabulary

# White space that is stripped from sentences, here, in pair files and in exported graphs.
WHITE_SPACE = " \t\n\v\f\r"


def unknown_tokens_message(name: str, count: int, tokenizer: Vocabulary) -> str:
    """Returns the message about the text called `name`, of which `tokenizer` counts `count` as unknown."""
    unit, form = ("characters", "bytes") if tokenizer.byte_ids else ("tokens", "[UNK]")
    return f"{name}: {count} of its {unit} are unknown to the tokenizer and are read as {form}"


def check_prompt(prompt: str, name: str = "prompt") -> None:
    """Raises a `UserError` if the argument `name` is not valid Unicode."""
    # Bytes on a command line that are not UTF-8 arrive as lone surrogates.
    surrogate = re.search("[\ud800-\udfff]", prompt)
    if surrogate:
        problem = (
            f"not valid Unicode at character {surrogate.start()} (half of a surrogate pair, or a byte "
            "that is not UTF-8); should be UTF-8"
        )
        raise UserError(ArgumentProblem(name, prompt, problem))


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
