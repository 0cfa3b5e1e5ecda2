"""Dropout whose masks do not depend on how a batch is divided among devices."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

# Philox (Salmon et al. 2011) makes 4 numbers of 32 bits from one value of its counter.
PHILOX, NUMBERS_PER_COUNT = 1, 4


@dataclass(frozen=True)
class _Masks:
    """Where the masks of a training step are in the streams of random numbers; see `dropout_masks`."""

    batch: Any
    first_row: Any
    calls: Counter[int] = field(default_factory=Counter)


_masks: ContextVar[_Masks | None] = ContextVar("dropout_masks", default=None)


@contextmanager
def dropout_masks(batch: Any, first_row: Any = 0) -> Iterator[None]:
    """Makes every `Dropout` layer draw the masks of some rows of a batch.

    Args:
      batch: int[], number of the batch.
      first_row: int[], number of the first of these rows within the whole batch.
    """
    token = _masks.set(_Masks(batch, first_row))
    try:
        yield
    finally:
        _masks.reset(token)


@keras.saving.register_keras_serializable("minigpt")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout`; inside `dropout_masks`, the mask of a row is a function of three numbers.

    They are the layer's seed, the number of the batch, and the number of the row in the batch: the
    devices that share a batch draw the masks that one device would draw. The seed generator's counter
    is then neither used nor changed. Outside `dropout_masks`, the layer is Keras' own.
    """

    def call(self, inputs: Any, training: bool | None = False) -> Any:
        """float[B, ...] → float[B, ...]."""
        masks = _masks.get()
        if masks is None or not training or not self.rate:
            return super().call(inputs, training)
        calls = masks.calls[id(self)]
        masks.calls[id(self)] += 1
        seed = self.seed_generator.state.value[0]
        bits = random_bits(keras.ops.shape(inputs), seed, masks.batch, masks.first_row, calls)
        is_kept = bits >= tf.constant(round(self.rate * 2**32), tf.uint32)
        kept = tf.where(is_kept, inputs / (1 - self.rate), tf.zeros([], inputs.dtype))
        return tf.ensure_shape(kept, inputs.shape)


def random_bits(shape: Any, seed: Any, batch: Any, first_row: Any, calls: int = 0) -> Any:
    """Draws uniform bits; those of a row depend on its number, not on the number of rows.

    Args:
      shape: [B, ...], each an integer or int[].
      seed: int[], 32 bits of the key.
      batch: int[], the other 32 bits.
      first_row: int[], number of the first row.
      calls: number of the stream; streams with the same key do not overlap.
    Returns:
      uint32 of this shape.
    """
    numbers = math.prod(shape[1:])
    counts = (numbers + NUMBERS_PER_COUNT - 1) // NUMBERS_PER_COUNT
    key = tf.bitwise.left_shift(tf.cast(seed, tf.uint64), tf.constant(32, tf.uint64))
    key = tf.bitwise.bitwise_or(key, tf.cast(tf.cast(batch, tf.uint32), tf.uint64))
    counter = tf.cast(first_row, tf.uint64) * tf.cast(counts, tf.uint64)
    bits = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[shape[0], counts * NUMBERS_PER_COUNT],
        key=key[None],
        counter=tf.stack([counter, tf.constant(calls, tf.uint64)]),
        alg=PHILOX,
        dtype=tf.uint32,
    )
    return tf.reshape(bits[:, :numbers], shape)
