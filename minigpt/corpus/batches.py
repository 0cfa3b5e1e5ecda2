"""Token ids → batches, each a pure function of (seed, step).

The windows of a pass lie side by side from an offset that changes with the pass, and come in a
pseudo-random order. Row j of step s is window s·B + j of an endless row of passes. So there is no
state: resuming at step s is asking for step s.
"""

import functools
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from minigpt.errors import UserError


def windows_in_pass(n_tokens: int, max_len: int) -> int:
    """Windows of `max_len` targets that fit into `n_tokens` targets at every offset of a pass."""
    return max(0, (n_tokens - (max_len - 1)) // max_len)


def training_batch(
    ids: np.ndarray, max_len: int, batch_size: int, seed: int, step: int
) -> tuple[np.ndarray, np.ndarray]:
    """The batch of one step.

    Args:
      ids: uint16 or uint32[n + 1], usually memory-mapped.
      seed, step: non-negative.
    Returns:
      inputs and targets, int32[B, T]; the targets are the inputs moved on by one.
    """
    windows = windows_in_pass(len(ids) - 1, max_len)
    # Python integers: a step is never too large.
    first = int(step) * batch_size
    passes = range(first // windows, (first + batch_size - 1) // windows + 1)
    starts = np.concatenate(
        [
            _starts(
                seed,
                number,
                windows,
                max_len,
                max(first - number * windows, 0),
                min(first + batch_size - number * windows, windows),
            )
            for number in passes
        ]
    )
    # The plain view spares memmap's bookkeeping for every array made from it.
    rows = ids.view(np.ndarray)[starts[:, None] + np.arange(max_len + 1)].astype(np.int32)
    return rows[:, :-1], rows[:, 1:]


def _starts(seed: int, number: int, windows: int, max_len: int, begin: int, end: int) -> np.ndarray:
    """First ids of windows `begin` to `end` of a pass, int64[end - begin]."""
    draw, order = _pass_order(seed, number, windows)
    return order[begin:end].astype(np.int64) * max_len + draw % max_len


# Two, because a batch may lie across the end of a pass.
@functools.lru_cache(maxsize=2)
def _pass_order(seed: int, number: int, windows: int) -> tuple[int, np.ndarray]:
    """A draw for the offset of a pass, and the order of its windows, a permutation."""
    # The raw stream of a bit generator is the same in every version of numpy.
    raw = np.random.PCG64([seed, number]).random_raw(windows + 1)
    order = np.argsort(raw[1:], kind="stable")
    return int(raw[0]), order.astype(np.uint32 if windows < 2**32 else np.int64)


def batch_dataset(
    ids: np.ndarray, max_len: int, batch_size: int, seed: int, first_step: int, steps: int
) -> tf.data.Dataset:
    """The batches of `steps` steps from `first_step` on.

    Args:
      ids: uint16 or uint32[n + 1] token ids.
    Returns:
      a dataset of (inputs, targets), int32[B, T] with static shapes.
    Raises:
      UserError: there are fewer windows than rows in a batch.
    """
    n_tokens = len(ids) - 1
    if windows_in_pass(n_tokens, max_len) < batch_size:
        raise UserError(
            f"the training text has {n_tokens:,} tokens; training.batch_size = {batch_size} windows"
            f" of model.max_len = {max_len} need {(batch_size + 1) * max_len - 1:,}:"
            " lower training.batch_size or model.max_len, or give more text"
        )

    def read(step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return training_batch(ids, max_len, batch_size, seed, int(step))

    def batch(step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        inputs, targets = tf.numpy_function(read, [step], (tf.int32, tf.int32))
        shape = (batch_size, max_len)
        return tf.ensure_shape(inputs, shape), tf.ensure_shape(targets, shape)

    return in_this_thread(tf.data.Dataset.range(first_step, first_step + steps).map(batch))


def in_this_thread(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same without threads of its own; a batch is quick to make, so little is lost."""
    options = tf.data.Options()
    # The prefetching thread may be in our Python function when Python ends, and then waits for ever
    # for a lock that is never given again.
    options.experimental_optimization.inject_prefetch = False
    # The tuning thread sleeps for up to a minute at a time. Now and then it does not wake up when the
    # iterator is deleted, which waits for it, and so does all of Python.
    options.autotune.enabled = False
    return dataset.with_options(options)


def eval_windows(
    ids: np.ndarray, max_len: int, batch_size: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Every target of the stream exactly once, in windows side by side.

    Args:
      ids: uint16 or uint32[n + 1] token ids.
    Yields:
      inputs int32[B, T], targets int32[B, T], weights float32[B, T]. What fills the last batch has
      weight 0 and id 0.
    """
    n_tokens = len(ids) - 1
    for start in range(0, n_tokens, batch_size * max_len):
        stop = min(start + batch_size * max_len, n_tokens)
        inputs = np.zeros(batch_size * max_len, np.int32)
        targets, weights = np.zeros_like(inputs), np.zeros(inputs.shape, np.float32)
        inputs[: stop - start] = ids[start:stop]
        targets[: stop - start] = ids[start + 1 : stop + 1]
        weights[: stop - start] = 1
        shape = (batch_size, max_len)
        yield inputs.reshape(shape), targets.reshape(shape), weights.reshape(shape)
