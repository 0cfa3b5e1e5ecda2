"""Models of other programs: any Keras model that maps token ids to logits can generate text."""

import re
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from minigpt.generation.decoding import Decoder
from minigpt.generation.sampling import ban
from minigpt.generation.step_models import CachedGPT, StepModel, newest_window
from minigpt.models import GPT
from minigpt.notices import LOGGER
from minigpt.tokenizers.vocabulary import Vocabulary

# The context of a model if neither the model nor an argument limits it.
DEFAULT_MAX_LEN = 64
# Names of the number of positions in layers with position tables, in minigpt, keras_hub and programs that
# follow the Keras tutorials.
LENGTH_NAMES = {"max_len", "maxlen", "sequence_length", "max_length", "max_sequence_length"}


class UncachedModel(StepModel):
    """Any Keras model int[B, T] → float[B, T, V], causal in T: each step is a full pass.

    Args:
      model: the model.
      vocab_size: V.
      max_len: T, the longest input.
      fixed_length: whether every input has T tokens; shorter ones are padded on the right.
      output: index or key of the logits among several outputs; None if there is one output.
    """

    def __init__(
        self,
        model: keras.Model,
        vocab_size: int,
        max_len: int,
        fixed_length: bool,
        output: int | str | None = None,
    ) -> None:
        self.model = model
        self.vocab_size = vocab_size
        self.max_len = max_len
        self.fixed_length = fixed_length
        self.output = output

    def step(self, token_ids: Any, lengths: Any, caches: Any, banned: Any) -> tuple[Any, Any]:
        longest = tf.reduce_max(tf.concat([lengths, [1]], 0))
        width = self.max_len if self.fixed_length else tf.minimum(self.max_len, longest)
        window, last = newest_window(token_ids, lengths, width)
        outputs = output_of(self.model, window)
        logits = outputs if self.output is None else outputs[self.output]
        logits = tf.gather(logits, last, axis=1, batch_dims=1)[:, 0]
        logits = tf.ensure_shape(tf.cast(logits, tf.float32), [None, self.vocab_size])
        return ban(logits, banned), caches

    def row_bytes(self, capacity: int) -> int:
        return super().row_bytes(capacity) + 8 * self.vocab_size * self.max_len


def build_decoder(
    model: keras.Model,
    tokenizer: Vocabulary,
    max_len: int | None = None,
    output: int | str | None = None,
) -> Decoder:
    """Builds the decoder of a language model.

    A `GPT` decodes with a cache. Any other model is called on the newest max_len tokens at every step. A
    warning is logged if its logits depend on later tokens: it has learned to copy them, and what follows
    the newest token is padding.

    Args:
      model: maps token ids int[B, T] to logits float[B, T, V].
      tokenizer: the tokenizer it is trained with. V may be larger than its vocabulary, which may be
        empty if its size is not known.
      max_len: the maximum number of tokens that the model reads; by default the length of its input if
        that is fixed, else the length it was built with, else the smallest number of positions of its
        layers (see `LENGTH_NAMES`), else 64 or what the model accepts.
      output: the logits among several outputs, as an index or a name; by default the first output
        float[B, T, V] with V at least the vocabulary size.
    Raises:
      ValueError: the model does not do this; the message says what is wrong.
    """
    step_model: GPT | StepModel
    if isinstance(model, GPT):
        # Compiled with XLA, unless the model is compiled for training without it.
        step_model = CachedGPT(model, not model.compiled or model.jit_compile)
        if output not in (None, 0, -1):
            raise _refusal(f"it has one output. Received: output={output!r}")
        _check_vocab_size(model.vocab_size, tokenizer)
    else:
        step_model = _uncached(model, tokenizer, max_len, output)
    unused_ids = range(tokenizer.vocab_size or step_model.vocab_size, step_model.vocab_size)
    return Decoder(step_model, tokenizer.end_id, [*tokenizer.never_sampled_ids, *unused_ids])


def _uncached(
    model: keras.Model, tokenizer: Vocabulary, max_len: int | None, output: int | str | None
) -> UncachedModel:
    fixed_len = _length(getattr(model, "input_shape", None))
    built_len = _length(model.get_build_config().get("input_shape")) if model.built else None
    table_len = min(_table_lengths(model, set()), default=None)
    given_len = fixed_len or max_len or built_len or table_len
    length, outputs = _call(model, given_len or DEFAULT_MAX_LEN, may_be_shorter=given_len is None)
    places = _places(model, outputs)
    if output is not None and output not in places:
        raise _refusal(f"it has the outputs {list(places)}. Received: output={output!r}")
    found = list(dict.fromkeys(places.values())) if output is None else [places[output]]
    described = []
    for place in found:
        logits = outputs if place is None else outputs[place]
        shape, dtype = tuple(getattr(logits, "shape", ())), type(logits).__name__
        if shape:
            dtype = keras.backend.standardize_dtype(logits.dtype)
        described.append(f"{dtype}{list(shape)}")
        is_shaped = len(shape) == 3 and shape[:2] == (1, length)
        # Of several outputs, the first that is large enough.
        is_logits = is_shaped and (len(found) == 1 or shape[2] >= tokenizer.vocab_size)
        if is_logits and keras.backend.is_float_dtype(dtype):
            break
    else:
        raise _refusal(f"int32[1, {length}] gives {', '.join(described)}")
    values = keras.ops.convert_to_numpy(keras.ops.cast(logits, "float32"))
    if (values >= 0).all() and np.allclose(values.sum(-1), 1, atol=1e-2):
        raise _refusal("its output holds probabilities; remove the softmax")
    _check_vocab_size(shape[2], tokenizer)
    if _reads_later_tokens(model, length, shape[2], place):
        LOGGER.warning(
            "The logits of the model depend on later tokens, so it cannot generate text: its attention "
            "should be causal"
        )
    return UncachedModel(model, shape[2], length, fixed_len is not None, place)


def _places(model: keras.Model, outputs: Any) -> dict[int | str, Any]:
    """Returns where the outputs of a model are, by number and by name; None: there is one output."""
    if not isinstance(outputs, (list, tuple, dict)):
        keys: list[Any] = [None]
    else:
        keys = list(outputs) if isinstance(outputs, dict) else list(range(len(outputs)))
    names = list(outputs) if isinstance(outputs, dict) else getattr(model, "output_names", ())
    places: dict[int | str, Any] = dict(zip(names, keys, strict=False))
    for number, key in enumerate(keys):
        places |= {number: key, number - len(keys): key}
    return places


def output_of(model: keras.Model, token_ids: Any) -> Any:
    """Calls a model for inference and returns its output, also if it is in a list of one output."""
    outputs = model(token_ids, training=False)
    return outputs[0] if isinstance(outputs, (list, tuple)) and len(outputs) == 1 else outputs


def _call(model: keras.Model, length: int, may_be_shorter: bool) -> tuple[int, Any]:
    """Calls the model with `length` tokens, or with as many as it accepts.

    Returns:
      the number of tokens, and the outputs.
    """
    errors = []
    for tokens in range(length, 0 if may_be_shorter else length - 1, -1):
        try:
            return tokens, output_of(model, np.zeros((1, tokens), np.int32))
        except Exception as error:  # The model's layers may raise any exception.
            errors.append(error)
    problem = f"it cannot be called on int32[1, {length}]: {_reason(errors[0])}"
    raise _refusal(problem) from errors[0]


def _reads_later_tokens(model: keras.Model, length: int, vocab_size: int, place: Any) -> bool:
    """Returns whether the logits of the first token change with the tokens after it."""
    # Not token 0, which models may mask.
    first, other = min(1, vocab_size - 1), min(2, vocab_size - 1)

    def first_logits(later: int) -> Any:
        ids = np.full((1, length), later, np.int32)
        ids[0, 0] = first
        outputs = output_of(model, ids)
        outputs = outputs if place is None else outputs[place]
        return keras.ops.convert_to_numpy(keras.ops.cast(outputs[0, 0], "float32"))

    expected = first_logits(first)
    tolerance = 1e-3 * np.abs(expected).max()
    return not np.allclose(first_logits(other), expected, rtol=1e-3, atol=tolerance)


def _table_lengths(layer: keras.layers.Layer, seen: set[int]) -> Iterator[int]:
    """Yields the numbers of positions that a layer and the layers inside it give as attributes."""
    seen.add(id(layer))
    # Keras lists the layers of a model, but not those of a layer.
    for name, value in vars(layer).items():
        if name in LENGTH_NAMES and isinstance(value, int):
            yield value
        for part in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(part, keras.layers.Layer) and id(part) not in seen:
                yield from _table_lengths(part, seen)


def _reason(error: Exception) -> str:
    """Returns the first line of an error, without Keras' own first line and terminal colors."""
    lines = re.sub("\x1b\\[[0-9]+m", "", str(error)).splitlines()
    own = (line for line in lines if line and not line.startswith("Exception encountered"))
    return next(own, type(error).__name__)


def _length(shape: Any) -> int | None:
    """Returns T of the shape [B, T], or None if it is not fixed or the shape is different."""
    if isinstance(shape, (tuple, list)) and len(shape) == 2 and isinstance(shape[1], int):
        return shape[1]
    return None


def _check_vocab_size(vocab_size: int, tokenizer: Vocabulary) -> None:
    if vocab_size < tokenizer.vocab_size:
        raise _refusal(
            f"its vocabulary has {vocab_size} entries, fewer than the tokenizer's or word list's "
            f"{tokenizer.vocab_size}"
        )


def _refusal(problem: str) -> ValueError:
    return ValueError(
        "The model should map token ids int[B, T] to logits float[B, T, V], with V at least the "
        f"vocabulary size, but {problem}"
    )
