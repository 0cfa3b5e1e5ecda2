"""Tokenizers and vocabularies of other libraries, and prompts of ids: what `TextGenerator` takes."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral
from typing import Any

import numpy as np

from minigpt.generation.base_models import Prompt, as_list, check_prompt
from minigpt.tokenizers.vocabulary import Vocabulary

UNKNOWN = "[UNK]"
# The end token of a vocabulary that has none: no id is equal to it.
NO_END = -1


class WordList(Vocabulary):
    """A list of words, as `keras.layers.TextVectorization.get_vocabulary()` returns it.

    Text is the words joined by spaces. "" stands for padding and for ids without a word; neither these nor
    "[UNK]" are ever drawn. There is no end token. A `ValueError` is raised if there is no word.
    """

    end_id = NO_END
    separator = b" "

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__([word.encode() for word in words])
        self.never_sampled_ids = tuple(i for i, w in enumerate(words) if w in ("", UNKNOWN))
        if len(self.never_sampled_ids) == len(words):
            raise ValueError(
                f"`index_to_word`: none of its {len(words)} entries is a word; call `adapt()` first"
            )
        self.padding_id = None if words[0] else 0
        self._ids = {word: i for i, word in reversed(list(enumerate(words))) if word}
        self.unknown_id = self._ids.get(UNKNOWN)

    def encode(self, text: str) -> np.ndarray:
        """Returns int32[T], the ids of the words; padding for an empty text.

        A `ValueError` is raised if a word is not in the list, nor is "[UNK]"; or if there is no padding.
        """
        ids = [self._ids.get(word, self.unknown_id) for word in text.split()]
        if None in ids:
            problem = f"is not in the vocabulary, which has no {UNKNOWN!r} either"
            raise ValueError(f"{text.split()[ids.index(None)]!r} {problem}")
        return _started(ids, self.padding_id)


class GivenTokenizer(Vocabulary):
    """Any object with the methods `encode`, text to token ids, and `decode`, token ids to text.

    If it has them, these attributes are used: `vocab_size`, the number of ids; `end_id`, which ends a text
    and begins an empty one; `never_sampled_ids`, which are never drawn.
    """

    unknown_id = None

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        # The bytes of a token are unknown. With one each, stop strings are found in the text of the
        # newest tokens.
        super().__init__([b"?"] * getattr(tokenizer, "vocab_size", 0))
        self.end_id = getattr(tokenizer, "end_id", NO_END)
        self.never_sampled_ids = tuple(getattr(tokenizer, "never_sampled_ids", ()))

    def fit_size(self, vocab_size: int) -> None:
        """Takes the number of ids from the model if the object does not tell it."""
        if not self.vocab_size:
            # It fails before the training, not after an epoch.
            self._tokenizer.decode([vocab_size - 1])
            self.pieces = (b"?",) * vocab_size

    def encode(self, text: str) -> np.ndarray:
        ids = np.asarray(self._tokenizer.encode(text)).reshape(-1)
        return _started(ids, None if self.end_id == NO_END else self.end_id)

    def decode_valid(self, ids: Iterable[int]) -> str:
        ids = [int(i) for i in ids if i != self.end_id]
        # The next token may complete the character.
        return self._tokenizer.decode(ids).rstrip("\ufffd") if ids else ""


def as_tokenizer(name: str, value: Any) -> Vocabulary:
    """Returns the tokenizer that the argument `name` holds.

    `value` is a tokenizer of minigpt, a list of words, a dictionary from ids to words, or an object with
    `encode` and `decode`.

    Raises:
      TypeError: it is none of these.
      ValueError: it has no words.
    """
    if isinstance(value, Vocabulary):
        return value
    if callable(getattr(value, "encode", None)) and callable(getattr(value, "decode", None)):
        return GivenTokenizer(value)
    words = as_list(value)
    with suppress(TypeError, ValueError):
        if isinstance(value, Mapping):
            words = [value.get(index, "") for index in range(max(map(int, value), default=-1) + 1)]
    # TensorFlow's strings are bytes.
    if isinstance(words, list):
        words = [word.decode() if isinstance(word, bytes) else word for word in words]
        if all(isinstance(word, str) for word in words):
            return WordList(words)
    raise TypeError(
        f"`{name}` must be a list of words, such as `TextVectorization.get_vocabulary()`, a dictionary "
        "from ids to words, or a tokenizer with `encode` and `decode` (docs/python-api.md shows "
        f"how to wrap others). Received: {reprlib.repr(value)}"
    )


def as_prompts(name: str, value: Any, tokenizer: Vocabulary) -> list[Prompt]:
    """Returns the prompts that the argument `name` holds.

    `value` is a text or several; or token ids or several sequences of them, also as arrays or tensors.
    Trailing padding of the vocabulary is removed from ids.

    Raises:
      TypeError: it is none of these.
      ValueError: an id is outside the vocabulary, or `encode` refuses a text.
      UserError: a text is not valid Unicode.
    """
    value = as_list(value)
    is_one = not isinstance(value, list) or (value and _is_ids(value))
    return [_as_prompt(name, item, tokenizer) for item in ([value] if is_one else value)]


def _as_prompt(name: str, value: Any, tokenizer: Vocabulary) -> Prompt:
    if isinstance(value, Prompt):
        return value
    ids = []
    if _is_ids(value := as_list(value)):
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


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(i, Integral) for i in value)


def _started(ids: Any, start_id: int | None) -> np.ndarray:
    """Returns the ids as int32[T]; the start token if there are none."""
    if len(ids) == 0 and start_id is None:
        raise ValueError("an empty text has no token that a model could read; give at least one")
    return np.asarray(ids if len(ids) else [start_id]).astype(np.int32)
