"""`tf.data` datasets of training batches. The only module of this package that imports TensorFlow."""

import numpy as np
import tensorflow as tf

from minigpt.corpus.batches import check_fills_batch, training_batch
from minigpt.corpus.pair_batches import Buckets


def batch_dataset(
    ids: np.ndarray, max_len: int, batch_size: int, seed: int, first_step: int, steps: int
) -> tf.data.Dataset:
    """Returns the batches of `steps` steps, starting at `first_step`.

    Args:
      ids: uint16 or uint32[n + 1] token ids.
    Returns:
      a dataset of (inputs, targets), int32[B, T] with static shapes.
    Raises:
      UserError: there are fewer windows than rows in a batch.
    """
    check_fills_batch(len(ids) - 1, max_len, batch_size)

    def read(step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return training_batch(ids, max_len, batch_size, seed, int(step))

    def batch(step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        inputs, targets = tf.numpy_function(read, [step], (tf.int32, tf.int32))
        shape = (batch_size, max_len)
        return tf.ensure_shape(inputs, shape), tf.ensure_shape(targets, shape)

    return without_threads(tf.data.Dataset.range(first_step, first_step + steps).map(batch))


def pair_dataset(buckets: Buckets, seed: int, first_step: int, steps: int) -> tf.data.Dataset:
    """Returns the batches of pairs of `steps` steps, starting at `first_step`, for `Model.fit`.

    Returns:
      a dataset of ((source_ids, source_lengths, target_ids), targets, weights); see
      `pair_batches.PairBatch`. Shapes differ from bucket to bucket.
    """

    def read(step: np.ndarray) -> tuple[np.ndarray, ...]:
        inputs, targets, weights = buckets.training_batch(seed, int(step))
        return (*inputs, targets, weights)

    def batch(step: tf.Tensor) -> tuple[tuple[tf.Tensor, ...], tf.Tensor, tf.Tensor]:
        types = (tf.int32, tf.int32, tf.int32, tf.int32, tf.float32)
        source, lengths, target, targets, weights = tf.numpy_function(read, [step], types)
        return (
            (
                tf.ensure_shape(source, [None, None]),
                tf.ensure_shape(lengths, [None]),
                tf.ensure_shape(target, [None, None]),
            ),
            tf.ensure_shape(targets, [None, None]),
            tf.ensure_shape(weights, [None, None]),
        )

    return without_threads(tf.data.Dataset.range(first_step, first_step + steps).map(batch))


def without_threads(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset that starts no threads; batches are cheap to make."""
    options = tf.data.Options()
    # A prefetching thread that runs the Python function at interpreter exit waits forever for the
    # interpreter lock.
    options.experimental_optimization.inject_prefetch = False
    # The autotuning thread sleeps for up to a minute. Sometimes it does not wake up when the iterator is
    # deleted, and the deletion, which waits for the thread, blocks the process.
    options.autotune.enabled = False
    return dataset.with_options(options)
