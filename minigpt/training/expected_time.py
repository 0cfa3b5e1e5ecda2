"""Estimate of the training time, before anything is compiled."""

import statistics
import time

import tensorflow as tf

from minigpt.config import Config
from minigpt.models.memory_estimate import block_weights

# Share of the training time that matrix products take; the rest is attention, activations and the
# optimizer. Values between 58% and 82% were measured.
SHARE_OF_PRODUCTS = 0.67
_MEASURED_SECONDS = 0.1


def expected_seconds(config: Config, vocab_size: int, trained: float, evaluated: float) -> float:
    """Estimates the time from the number of multiplications and this machine's speed.

    Args:
      config: the settings.
      vocab_size: V.
      trained: tokens of the forward and the backward pass, which costs twice the forward pass.
      evaluated: tokens of a forward pass alone.
    """
    multiplied = block_weights(config.model) + vocab_size * config.model.embed_dim
    if config.model.kind == "encoder_decoder":
        # A token goes through the encoder or through the decoder and the head, not through both.
        multiplied //= 2
    products = 2 * multiplied * (3 * trained + evaluated)
    return products / (SHARE_OF_PRODUCTS * _products_per_second(config))


def _products_per_second(config: Config) -> float:
    """Measures a product of the size of those in a feed-forward network."""
    sizes = config.model
    rows = min(4096, config.training.batch_size * config.sequence_length)
    dtype = config.training.precision.removeprefix("mixed_")
    a, b = tf.ones([rows, sizes.embed_dim], dtype), tf.ones([sizes.embed_dim, sizes.ff_size], dtype)
    durations, end = [], time.perf_counter() + _MEASURED_SECONDS
    while (start := time.perf_counter()) < end:
        float(tf.matmul(a, b)[0, 0])
        durations.append(time.perf_counter() - start)
    # The median: the first products also start threads.
    return 2 * rows * sizes.embed_dim * sizes.ff_size / statistics.median(durations)
