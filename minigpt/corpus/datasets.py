"""`tf.data` datasets of training batches. The only module of this package that imports TensorFlow."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


def batch_dataset(
    batch: Callable[[int], Any], signature: Any, first: int, count: int
) -> tf.data.Dataset:
    """Returns a dataset of some batches, for `Model.fit`.

    Args:
      batch: number of the batch → a nest of arrays. None in it is left out.
      signature: the nest of `tf.TensorSpec` of the arrays; shapes may be partly known.
      first: number of the first batch.
      count: how many batches follow, the first included.
    """
    specs = tf.nest.flatten(signature)

    def read(number: np.ndarray) -> list[np.ndarray]:
        return [array for array in tf.nest.flatten(batch(int(number))) if array is not None]

    def tensors(number: tf.Tensor) -> Any:
        arrays = tf.numpy_function(read, [number], [spec.dtype for spec in specs])
        shaped = [tf.ensure_shape(a, spec.shape) for a, spec in zip(arrays, specs, strict=True)]
        return tf.nest.pack_sequence_as(signature, shaped)

    # No threads: batches are cheap to make.
    options = tf.data.Options()
    # A prefetching thread that runs the Python function at interpreter exit waits forever for the
    # interpreter lock.
    options.experimental_optimization.inject_prefetch = False
    # The autotuning thread sleeps for up to a minute. Sometimes it does not wake up when the iterator is
    # deleted, and the deletion, which waits for the thread, blocks the process.
    options.autotune.enabled = False
    return tf.data.Dataset.range(first, first + count).map(tensors).with_options(options)
