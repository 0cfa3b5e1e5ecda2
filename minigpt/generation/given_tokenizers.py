"""Tokenizers and vocabularies of other libraries, which `TextGenerator` takes in addition to our own."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral
from typing import Any

import keras
import numpy as np

from minigpt.generation.prompts import as_list
from minigpt.tokenizers.vocabulary import Vocabulary

UNKNOWN = "[UNK]"
# The end token of a vocabulary that has none: no id is equal to it.
NO_END = -1

# Names of attributes or methods in minigpt's documentation, in transformers, sentencepiece and others.
_SIZE = ("vocab_size", "n_vocab", "vocabulary_size", "get_vocab_size")
_END = ("end_id", "eos_token_id", "eos_id", "eot_token", "sep_token_id")
_START = ("bos_token_id", "bos_id", "cls_token_id")
_PADDING = ("pad_token_id", "pad_id")
_OTHERS = ("unk_token_id", "unk_id", "mask_token_id")


class WordList(Vocabulary):
    """A list of words, as `keras.layers.TextVectorization.get_vocabulary()` returns it.

    Text is the words joined by `separator`. It has no end token.

    Args:
      words: the word of each id. "" stands for padding and for ids without a word; neither these nor
        "[UNK]" are ever drawn.
      separator: the text between two words.
    """

    end_id = NO_END

    def __init__(self, words: Sequence[str], separator: str = " ") -> None:
        super().__init__([word.encode() for word in words])
        # A class variable of our own tokenizers.
        self.separator = separator.encode()  # type: ignore[misc]
        self.never_sampled_ids = tuple(i for i, w in enumerate(words) if w in ("", UNKNOWN))
        if len(self.never_sampled_ids) == len(words):
            raise ValueError(
                f"none of its {len(words)} entries is a word; call `adapt()` of a layer first"
            )
        self.padding_id = None if words[0] else 0
        self._ids = {word: i for i, word in reversed(list(enumerate(words))) if word}
        self.unknown_id = self._ids.get(UNKNOWN)

    def encode(self, text: str) -> np.ndarray:
        """Returns int32[T], the ids of the words between white space; padding for an empty text.

        Raises:
          ValueError: a word is not in the list, nor is "[UNK]"; or there is no padding.
        """
        words = text.split()
        ids = [self._ids.get(word, self.unknown_id) for word in words]
        if None in ids:
            word = words[ids.index(None)]
            raise ValueError(f"{word!r} is not in the vocabulary, which has no {UNKNOWN!r} either")
        return _started(ids, self.padding_id)


class VectorizedText(WordList):
    """The vocabulary of a `TextVectorization` layer, which also encodes texts as the layer does.

    Args:
      layer: the adapted layer.
    """

    def __init__(self, layer: keras.layers.TextVectorization) -> None:
        config = layer.get_config()
        if config["output_mode"] != "int":
            raise ValueError(
                f"the layer's output_mode should be 'int'. Received: {config['output_mode']!r}"
            )
        words = layer.get_vocabulary()
        super().__init__(words, "" if config["split"] == "character" else " ")
        # Without `output_sequence_length`, which pads prompts and cuts long ones.
        names = ("standardize", "split", "ngrams", "encoding")
        self._layer = keras.layers.TextVectorization(
            **{name: config[name] for name in names}, vocabulary=words
        )

    def encode(self, text: str) -> np.ndarray:
        """Returns int32[T], the ids that the layer gives; only an empty text gives padding."""
        return _started(np.asarray(self._layer([text]))[0], self.padding_id)


class GivenTokenizer(Vocabulary):
    """Any object with the methods `encode`, text to token ids, and `decode`, token ids to text.

    Args:
      tokenizer: the object. If it has them, these attributes or methods are used: the number of ids
        (`vocab_size`; or its length), the end token (`end_id`), and ids that are never drawn
        (`never_sampled_ids`), or what transformers and sentencepiece call them.
    """

    unknown_id = None

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        size = len(tokenizer) if hasattr(tokenizer, "__len__") else _number(tokenizer, _SIZE)
        self._set_size(size or 0)
        end, start, padding = (_number(tokenizer, names) for names in (_END, _START, _PADDING))
        self.end_id = NO_END if end is None else end
        self._start_id = next((i for i in (start, end, padding) if i is not None), None)
        others = [_number(tokenizer, (name,)) for name in _OTHERS]
        given = getattr(tokenizer, "never_sampled_ids", ())
        never = {int(i) for i in (start, padding, *others, *given) if i is not None}
        self.never_sampled_ids = tuple(sorted(never - {self.end_id}))
        # They begin and end texts, and are not part of them.
        self._marks = {start, padding, end}

    def _set_size(self, size: int) -> None:
        # The bytes of a token are unknown. With one each, stop strings are found in the text of the
        # newest tokens.
        super().__init__([b"?"] * size)

    def fit_size(self, vocab_size: int) -> None:
        """Takes the number of ids from the model if the object does not tell it.

        Raises:
          ValueError: the object cannot decode the last id.
        """
        if not self.vocab_size:
            self.decode_valid([vocab_size - 1])
            self._set_size(vocab_size)

    def encode(self, text: str) -> np.ndarray:
        """Returns int32[T], the ids that the object gives; for an empty text the token before a text.

        Raises:
          TypeError: it does not give integers.
          ValueError: an empty text has no ids, and there is no token before a text.
        """
        encoded = self._tokenizer.encode(text)
        # The `tokenizers` library returns an `Encoding`.
        ids = np.asarray(getattr(encoded, "ids", encoded))
        if ids.size and ids.dtype.kind not in "iu":
            raise TypeError(f"`encode` must return token ids. Received: {encoded!r}")
        return _started(ids.reshape(-1), self._start_id)

    def decode_valid(self, ids: Iterable[int]) -> str:
        ids = [int(i) for i in ids if i not in self._marks]
        if not ids:
            return ""
        try:
            text = self._tokenizer.decode(ids)
        except Exception as error:  # It may raise any exception.
            raise ValueError(
                f"`decode` of {type(self._tokenizer).__name__} failed for the ids {ids[-5:]}: "
                f"{type(error).__name__}: {' '.join(str(error).split())}; give the object an attribute "
                "`vocab_size` if the model's vocabulary is larger"
            ) from error
        if not isinstance(text, str):
            raise TypeError(f"`decode` must return a string. Received: {text!r}")
        # The next token may complete the character.
        return text.rstrip("\ufffd")


def as_tokenizer(name: str, value: Any) -> Vocabulary:
    """Returns the tokenizer that an argument holds.

    Args:
      name: the argument's name, for the message.
      value: a tokenizer of minigpt, a list of words, a dictionary from ids to words, a
        `TextVectorization` layer, or an object with `encode` and `decode`.
    Raises:
      TypeError: it is none of these.
      ValueError: it has no words.
    """
    if isinstance(value, Vocabulary):
        return value
    if callable(getattr(value, "encode", None)) and callable(getattr(value, "decode", None)):
        return GivenTokenizer(value)
    try:
        if isinstance(value, keras.layers.TextVectorization):
            return VectorizedText(value)
        if (words := _words_of(value)) is not None:
            return WordList(words)
    except ValueError as error:
        raise ValueError(f"`{name}`: {error}") from None
    hint = ""
    if hasattr(value, "tokenize") and hasattr(value, "detokenize"):
        hint = ", which can be wrapped: see docs/python-api.md"
    raise TypeError(
        f"`{name}` must be a list of words, a dictionary from ids to words, a TextVectorization layer, or "
        f"a tokenizer with the methods `encode` and `decode`. Received: {reprlib.repr(value)} of "
        f"type {type(value).__name__}{hint}"
    )


def _words_of(value: Any) -> list[str] | None:
    """Returns the words of the ids from 0 on, "" for ids without a word; None if there are none."""
    if isinstance(value, Mapping):
        if not all(isinstance(index, Integral) and int(index) >= 0 for index in value):
            return None
        value = [value.get(index, "") for index in range(max(value, default=-1) + 1)]
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return None
    # TensorFlow's strings are bytes.
    words = [word.decode() if isinstance(word, bytes) else word for word in as_list(value)]
    return words if all(isinstance(word, str) for word in words) else None


def _started(ids: Any, start_id: int | None) -> np.ndarray:
    """Returns the ids as int32[T]; the start token if there are none."""
    if len(ids) == 0 and start_id is None:
        raise ValueError("an empty text has no token that a model could read; give at least one")
    return np.asarray(ids if len(ids) else [start_id]).astype(np.int32)


def _number(tokenizer: Any, names: Iterable[str]) -> int | None:
    """Returns the first number from 0 on that an attribute or method with one of these names gives."""
    for name in names:
        value = getattr(tokenizer, name, None)
        with suppress(TypeError, ValueError):
            number = int(value() if callable(value) else value)  # type: ignore[arg-type]
            if number >= 0:
                return number
    return None
