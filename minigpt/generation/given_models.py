"""Models of other programs: any Keras model that maps token ids to logits can generate text."""

from dataclasses import dataclass
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


@dataclass(eq=False)
class UncachedModel(StepModel):
    """Any Keras model int[B, T] → float[B, T, V], causal in T: each step is a full pass.

    Attributes:
      fixed_length: whether every input has max_len tokens; shorter ones are padded on the right.
      output: index or key of the logits among several outputs; None if there is one output.
    """

    model: keras.Model
    vocab_size: int
    max_len: int
    fixed_length: bool
    output: int | str | None

    def step(self, token_ids: Any, lengths: Any, caches: Any, banned: Any) -> tuple[Any, Any]:
        longest = tf.reduce_max(tf.concat([lengths, [1]], 0))
        width = self.max_len if self.fixed_length else tf.minimum(self.max_len, longest)
        window, last = newest_window(token_ids, lengths, width)
        outputs = self.model(window, training=False)
        logits = outputs if self.output is None else outputs[self.output]
        logits = tf.gather(logits, last, axis=1, batch_dims=1)[:, 0]
        logits = tf.ensure_shape(tf.cast(logits, tf.float32), [None, self.vocab_size])
        return ban(logits, banned), caches

    def row_bytes(self, capacity: int) -> int:
        return super().row_bytes(capacity) + 8 * self.vocab_size * self.max_len


def build_decoder(model: keras.Model, tokenizer: Vocabulary, max_len: int | None = None) -> Decoder:
    """Builds the decoder of a language model.

    A `GPT` decodes with a cache. Any other model is called on the newest max_len tokens at every step. A
    warning is logged if its logits depend on later tokens: it has learned to copy them, and what follows
    the newest token is padding.

    Args:
      model: maps token ids int[B, T] to logits float[B, T, V], the first output of this form with V at
        least the vocabulary size.
      tokenizer: the tokenizer it is trained with. V may be larger than its vocabulary, which may be
        empty if its size is not known.
      max_len: the maximum number of tokens that the model reads; by default the length of its input if
        that is fixed, else the length it was built with, else 64.
    Raises:
      ValueError: the model does not do this; the message says what is wrong.
    """
    step_model: StepModel
    if isinstance(model, GPT):
        # Compiled with XLA, unless the model is compiled for training without it.
        step_model = CachedGPT(model, not model.compiled or model.jit_compile)
        if model.vocab_size < tokenizer.vocab_size:
            raise _refusal(f"V = {model.vocab_size}")
    else:
        step_model = _uncached(model, tokenizer, max_len)
    unused_ids = range(tokenizer.vocab_size or step_model.vocab_size, step_model.vocab_size)
    return Decoder(step_model, tokenizer.end_id, [*tokenizer.never_sampled_ids, *unused_ids])


def _uncached(model: keras.Model, tokenizer: Vocabulary, max_len: int | None) -> UncachedModel:
    fixed_len = _length(getattr(model, "input_shape", None))
    built_len = _length(model.get_build_config().get("input_shape")) if model.built else None
    length = fixed_len or max_len or built_len or DEFAULT_MAX_LEN
    # Two texts that begin with the same token. It is not token 0, which models may mask.
    starts = np.minimum([[1, 2], [1, 1]], (tokenizer.vocab_size or 3) - 1)
    ids = np.pad(starts, [(0, 0), (0, max(0, length - 2))], "edge")[:, :length]
    try:
        outputs = model(ids.astype(np.int32), training=False)
    except Exception as error:  # The model's layers may raise any exception.
        raise _refusal(f"it cannot be called on int32[2, {length}]; see max_len") from error
    found: Any = {None: outputs}
    if isinstance(outputs, dict | list | tuple):
        found = outputs if isinstance(outputs, dict) else dict(enumerate(outputs))
    fitting = [
        key
        for key, x in found.items()
        if len(x.shape) == 3 and x.shape[2] >= tokenizer.vocab_size and "float" in x.dtype.name
    ]
    if not fitting:
        gives = [f"{x.dtype.name}{list(x.shape)}" for x in found.values()]
        raise _refusal(f"int32[2, {length}] gives {', '.join(gives)}")
    logits = found[fitting[0]]
    values = keras.ops.convert_to_numpy(keras.ops.cast(logits, "float32"))
    if (values >= 0).all() and np.allclose(values.sum(-1), 1, atol=1e-2):
        raise _refusal("its output holds probabilities; remove the softmax")
    first, other = values[:, 0]
    if not np.allclose(first, other, rtol=1e-3, atol=1e-3 * np.abs(first).max()):
        LOGGER.warning(
            "The logits of the model depend on later tokens, so it cannot generate text: its attention "
            "should be causal"
        )
    return UncachedModel(model, logits.shape[2], length, fixed_len is not None, fitting[0])


def _length(shape: Any) -> int | None:
    """Returns T of the shape [B, T], or None if it is not fixed or the shape is different."""
    return shape[1] if isinstance(shape, tuple | list) and len(shape) == 2 else None


def _refusal(problem: str) -> ValueError:
    return ValueError(
        "The model should map token ids int[B, T] to logits float[B, T, V], with V at least the "
        f"vocabulary size, but {problem}"
    )
