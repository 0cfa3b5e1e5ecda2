"""Checks of the arguments of text models: prompts, other texts, seeds, token ids."""

import re
from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from minigpt.errors import ArgumentProblem, UserError
from minigpt.tokenizers.chat_format import check_messages
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
    if surrogate := re.search("[\ud800-\udfff]", prompt):
        problem = f"not valid Unicode at character {surrogate.start()}; should be UTF-8"
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
    is_one = not isinstance(value, list) or (value and _is_ids(value))
    return [_as_prompt(name, as_list(item), tokenizer) for item in ([value] if is_one else value)]


def _as_prompt(name: str, value: Any, tokenizer: Vocabulary) -> Prompt:
    ids = []
    if _is_ids(value):
        ids = [int(i) for i in value]
        size = tokenizer.vocab_size or 2**31
        if not all(0 <= i < size for i in ids):
            raise ValueError(f"`{name}` must have ids from 0 to {size - 1:,}. Received: {ids}")
        while ids and ids[-1] == tokenizer.padding_id:
            ids.pop()
        value = tokenizer.decode_valid(ids)
    check_prompt(value, name)
    try:
        return Prompt(value, np.array(ids or tokenizer.encode(value), np.int32))
    except ValueError as error:
        raise ValueError(f"`{name}`: {error}") from error


def chat_prompt(
    messages: Any, tokenizer: Vocabulary, max_len: int, max_new_tokens: int | None
) -> Prompt:
    """Returns the prompt of the next answer of a dialogue, whose text is the last question.

    Args:
      messages: as for `BaseTextModel.chat`. The oldest questions and answers are left out if the dialogue
        and an answer do not fit into the context.
      tokenizer: the model's tokenizer.
      max_len: the context, in tokens.
      max_new_tokens: tokens of the answer; None: as many as fit, at least a quarter of the context.
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
      UserError: a text is not valid Unicode.
    """
    is_many = isinstance(value, Iterable) and not isinstance(value, str)
    texts = list(value) if is_many else [value]
    for text in texts:
        check_prompt(text, name)
    return texts


def seeds_of(seed: Any, count: int, num_samples: int = 1) -> list[int]:
    """Returns `count` seeds from one integer or from a sequence of them; sample i uses seed + i.

    Raises:
      TypeError: the argument is neither.
      UserError: the number of samples or a seed is out of range.
    """
    seeds = np.asarray(seed)
    if (seeds.size and seeds.dtype.kind not in "iu") or seeds.shape not in ((), (count,)):
        raise TypeError(f"`seed` must be one integer or one per prompt. Received: {seed!r}")
    if num_samples < 1:
        raise UserError(ArgumentProblem("num_samples", num_samples, "should be at least 1"))
    found, limit = np.broadcast_to(seeds, count).tolist(), 2**31 - num_samples
    problem = f"should be from 0 to {limit}, because sample i uses seed + i"
    if wrong := [ArgumentProblem("seed", s, problem) for s in found if not 0 <= s <= limit]:
        raise UserError(*wrong)
    return found


def as_token_ids(token_ids: Any, max_len: int, vocab_size: int) -> np.ndarray:
    """Returns token ids as int32[B, T].

    Raises:
      ValueError: they are not int[B, T] with T ≤ max_len, or an id is outside the vocabulary.
    """
    ids = np.asarray(token_ids)
    are_integers = ids.dtype.kind in "iu" or not ids.size
    is_shaped = ids.ndim == 2 and ids.shape[1] <= max_len
    if not (are_integers and is_shaped and ((ids >= 0) & (ids < vocab_size)).all()):
        raise ValueError(
            f"`token_ids` must be int[B, T] with T ≤ max_len = {max_len}, from 0 to {vocab_size - 1}. "
            f"Received: {ids.dtype}{list(ids.shape)}"
        )
    return ids.astype(np.int32)
