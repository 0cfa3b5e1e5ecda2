"""Decoders for models and tokenizers: any Keras model that maps token ids to logits can generate text."""

import re
from typing import Any

import keras
import numpy as np

from minigpt.generation import Decoder
from minigpt.generation.step_models import CachedGPT, StepModel, UncachedModel, output_of
from minigpt.models import GPT
from minigpt.tokenizers import Tokenizer

# The context of a model if neither its input shape nor an argument limits it.
DEFAULT_MAX_LEN = 64


def build_decoder(model: keras.Model, tokenizer: Tokenizer, max_len: int | None = None) -> Decoder:
    """Builds the decoder of a language model.

    A `GPT` decodes with a cache. Any other model is called on the newest max_len tokens at every step; it
    should be causal.

    Args:
      model: maps token ids int[B, T] to logits float[B, T, V], its only output.
      tokenizer: the tokenizer it is trained with. V may be larger than its vocabulary.
      max_len: the maximum number of tokens that the model reads; by default the length of its input if
        that is fixed, else the length it was built with, else 64.
    Raises:
      ValueError: the model does not do this; the message says what is wrong.
    """
    step_model: GPT | StepModel
    if isinstance(model, GPT):
        # Compiled with XLA, unless the model is compiled for training without it.
        step_model = CachedGPT(model, not model.compiled or model.jit_compile)
        _check_vocab_size(model.vocab_size, tokenizer)
    else:
        step_model = _uncached(model, tokenizer, max_len)
    unused_ids = range(tokenizer.vocab_size, step_model.vocab_size)
    return Decoder(step_model, tokenizer.end_id, [*tokenizer.undrawable_ids, *unused_ids])


def _uncached(model: keras.Model, tokenizer: Tokenizer, max_len: int | None) -> UncachedModel:
    fixed_len = _length(getattr(model, "input_shape", None))
    built_len = _length(model.get_build_config().get("input_shape")) if model.built else None
    length = fixed_len or max_len or built_len or DEFAULT_MAX_LEN
    try:
        logits = output_of(model, np.zeros((1, length), np.int32))
    except Exception as error:  # The model's layers may raise any exception.
        raise _refusal(f"it cannot be called on int32[1, {length}]: {_reason(error)}") from error
    if isinstance(logits, (list, tuple)):
        raise _refusal(f"it has {len(logits)} outputs")
    shape = getattr(logits, "shape", None)
    if shape is None or len(shape) != 3 or shape[1] != length:
        raise _refusal(f"int32[1, {length}] gives {_describe(logits)}")
    if not keras.backend.is_float_dtype(keras.backend.standardize_dtype(logits.dtype)):
        raise _refusal(f"its output is {_describe(logits)}")
    values = keras.ops.convert_to_numpy(keras.ops.cast(logits, "float32"))
    if (values >= 0).all() and np.allclose(values.sum(-1), 1, atol=1e-2):
        raise _refusal("its output holds probabilities; remove the softmax")
    _check_vocab_size(shape[2], tokenizer)
    return UncachedModel(model, shape[2], length, fixed_length=fixed_len is not None)


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


def _check_vocab_size(vocab_size: int, tokenizer: Tokenizer) -> None:
    if vocab_size < tokenizer.vocab_size:
        raise _refusal(
            f"its vocabulary has {vocab_size} entries, fewer than the tokenizer's "
            f"{tokenizer.vocab_size}"
        )


def _describe(output: Any) -> str:
    if not hasattr(output, "shape"):
        return f"a {type(output).__name__}"
    return f"{keras.backend.standardize_dtype(output.dtype)}{list(output.shape)}"


def _refusal(problem: str) -> ValueError:
    return ValueError(
        "The model should map token ids int[B, T] to logits float[B, T, V], with V at least the "
        f"tokenizer's vocabulary size, but {problem}"
    )
