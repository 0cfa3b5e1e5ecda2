"""How long a training may take, before any of it is compiled."""

import statistics
import time

import tensorflow as tf

from minigpt.config import Config
from minigpt.models.memory_estimate import block_weights

# Of a training's time; the rest is attention, activations, optimizer. Between 58% and 82% were measured.
SHARE_OF_PRODUCTS = 0.67
_SECONDS = 0.1


def expected_seconds(config: Config, vocab_size: int, trained: float, evaluated: float) -> float:
    """A guess from the number of multiplications and the speed at which this machine does them.

    Args:
      config: the settings.
      vocab_size: V.
      trained: tokens that go forward and, at twice the cost, back.
      evaluated: tokens that go forward alone.
    """
    multiplied = block_weights(config.model) + vocab_size * config.model.embed_dim
    if config.model.kind == "encoder_decoder":
        # A token is one of the source, for the encoder, or of the target, for decoder and head.
        multiplied //= 2
    products = 2 * multiplied * (3 * trained + evaluated)
    return products / (SHARE_OF_PRODUCTS * _products_per_second(config))


def _products_per_second(config: Config) -> float:
    """Of a product like those of a feed-forward network."""
    sizes = config.model
    rows = min(4096, config.training.batch_size * config.sequence_length)
    dtype = config.training.precision.removeprefix("mixed_")
    a, b = tf.ones([rows, sizes.embed_dim], dtype), tf.ones([sizes.embed_dim, sizes.ff_size], dtype)
    taken, end = [], time.perf_counter() + _SECONDS
    while (began := time.perf_counter()) < end:
        float(tf.matmul(a, b)[0, 0])
        taken.append(time.perf_counter() - began)
    # The first ones wake threads.
    return 2 * rows * sizes.embed_dim * sizes.ff_size / statistics.median(taken)
