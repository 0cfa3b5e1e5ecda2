"""Measures the speed of `fit` of any Keras model."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from benchmarks.held_out import Nats
from benchmarks.measuring import Outcome, SteadySpeed, resident
from benchmarks.sizes import Sizes
from benchmarks.watching import Finished, watch

FIRST = 2


def fit_speed(
    build: Callable[[], Any], sizes: Sizes, batches: int, steps: int, seconds: float
) -> Outcome:
    """Measures tokens per second of `fit` with prepared batches of random tokens, without text.

    Memory counts from the call of this function: import the libraries of the model before it.

    Args:
      build: returns the compiled model.
      batches: number of different batches.
      steps, seconds: the measurement ends after at least this many steps and this much time.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    imported = resident()
    steady = SteadySpeed(sizes.tokens_per_step, FIRST, steps, seconds)

    def observe(model: Any, step: int, event: str) -> None:
        if event == "step" and steady.seen(step):
            raise Finished

    watch(observe)
    keras.utils.set_random_seed(0)
    rows = np.random.default_rng(0).integers(
        sizes.vocab_size, size=(batches * sizes.batch_size, sizes.length + 1), dtype=np.int32
    )
    dataset = tf.data.Dataset.from_tensor_slices((rows[:, :-1], rows[:, 1:]))
    dataset = dataset.repeat().batch(sizes.batch_size, drop_remainder=True).prefetch(2)
    with suppress(Finished):
        build().fit(dataset, verbose=0)
    return {
        "value": steady.tokens_per_second,
        "memory": resident("VmHWM") - imported,
        "steps": steady.counted,
    }


def nats_of(model: Any) -> Nats:
    """Returns the function that computes the losses of a batch; the first output are the logits."""
    import tensorflow as tf

    # Compiling with XLA would take longer than all evaluations.
    @tf.function
    def losses(inputs: Any, targets: Any) -> Any:
        logits = model(inputs, training=False)
        logits = logits[0] if isinstance(logits, list | tuple) else logits
        return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)

    return lambda inputs, targets: losses(tf.constant(inputs), tf.constant(targets)).numpy()
