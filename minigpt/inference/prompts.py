"""Checks of prompts and of other text that a user gives to a model."""

import re

from minigpt.errors import UserError


def unknown_tokens_message(name: str, count: int) -> str:
    """Returns the message about `count` tokens of the text called `name` that became `[UNK]`."""
    return f"{name}: {count} of its tokens are unknown to the tokenizer and are read as [UNK]"


def check_prompt(prompt: str) -> None:
    """Raises a `UserError` if `prompt` is not valid Unicode."""
    # Bytes on a command line that are not UTF-8 arrive as lone surrogates.
    half = re.search("[\ud800-\udfff]", prompt)
    if half:
        raise UserError(
            f"prompt {prompt!r}: not valid Unicode at character {half.start()} (half of a surrogate "
            "pair, or a byte that is not UTF-8); should be UTF-8"
        )
