"""Estimate of the training time, before anything is compiled."""

import statistics
import time
from collections.abc import Callable

import tensorflow as tf

from minigpt.config import Config
from minigpt.models.memory_estimate import block_weights

# Share of the training time that matrix products take; the rest is attention, activations and the
# optimizer. Values between 58% and 82% were measured.
SHARE_OF_PRODUCTS = 0.67
# A product is measured for this time, and at least this many times.
_MEASURED_SECONDS, _MIN_PRODUCTS = 0.3, 5
# Rows are added to the measured product until it takes this time. The full one takes seconds if it is wide.
_LONG_ENOUGH_SECONDS, _MIN_ROWS, _MAX_ROWS = 0.01, 16, 4096
# Measurements disagree if their upper quartile is more than this many times the lower one.
MAX_SPREAD = 2.0


def expected_seconds(
    config: Config, vocab_size: int, trained: float, evaluated: float
) -> float | None:
    """Estimates the time from the number of multiplications and this machine's speed.

    Args:
      config: the settings.
      vocab_size: V.
      trained: tokens of the forward and the backward pass, which costs twice the forward pass.
      evaluated: tokens of a forward pass alone.
    Returns:
      the seconds; None if measurements of the speed disagree.
    """
    if (speed := _products_per_second(config)) is None:
        return None
    multiplied = block_weights(config.model) + vocab_size * config.model.embed_dim
    if config.model.kind == "encoder_decoder":
        # A token goes through the encoder or through the decoder and the head, not through both.
        multiplied //= 2
    products = 2 * multiplied * (3 * trained + evaluated)
    return products / (SHARE_OF_PRODUCTS * speed)


def _products_per_second(config: Config) -> float | None:
    """Measures a product of the size of those in a feed-forward network, or of fewer rows.

    Returns:
      multiplications and additions per second; None if measurements disagree.
    """
    sizes = config.model
    dtype = config.training.precision.removeprefix("mixed_")
    kernel = tf.ones([sizes.embed_dim, sizes.ff_size], dtype)
    all_rows = min(_MAX_ROWS, config.training.batch_size * config.sequence_length)
    rows = min(_MIN_ROWS, all_rows)
    while True:
        inputs = tf.ones([rows, sizes.embed_dim], dtype)

        def multiply(inputs: tf.Tensor = inputs) -> None:
            float(tf.matmul(inputs, kernel)[0, 0])  # Waits for the result.

        # The first product of a size is not measured: it starts threads and chooses a kernel, and may
        # take 90 times as long as the others.
        multiply()
        if rows == all_rows or _seconds_of(multiply) >= _LONG_ENOUGH_SECONDS:
            break
        rows = min(all_rows, 4 * rows)
    durations: list[float] = []
    end = time.perf_counter() + _MEASURED_SECONDS
    while len(durations) < _MIN_PRODUCTS or time.perf_counter() < end:
        durations.append(_seconds_of(multiply))
    low, middle, high = statistics.quantiles(durations, n=4)
    if high > MAX_SPREAD * low:
        return None
    return 2 * rows * sizes.embed_dim * sizes.ff_size / middle


def _seconds_of(multiply: Callable[[], None]) -> float:
    start = time.perf_counter()
    multiply()
    return time.perf_counter() - start
