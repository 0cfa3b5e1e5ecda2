"""The device that training runs on, and its memory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import keras
import tensorflow as tf

from minigpt.config import Config, TrainingConfig
from minigpt.errors import UserError
from minigpt.models.memory_estimate import check_training_fits, needed_to_train


def set_up_device(config: TrainingConfig) -> str:
    """Selects the device and seeds all random number generators.

    Returns:
      The device's name.
    Raises:
      UserError: the device does not exist.
    """
    gpus = tf.config.list_physical_devices("GPU")
    kind, _, number = config.device.partition(":")
    if kind == "gpu" and int(number or 0) >= len(gpus):
        raise UserError(
            f"training.device = {config.device!r}: this machine has {len(gpus)} GPUs that TensorFlow "
            "can use; should be 'cpu' or 'auto'"
        )
    used = [] if kind == "cpu" else gpus[int(number or 0) :][:1]
    try:
        tf.config.set_visible_devices(used, "GPU")
    except RuntimeError:
        # TensorFlow is already initialized, for example in a notebook. Its devices cannot change.
        used = [gpu for gpu in used if gpu in tf.config.get_visible_devices("GPU")]
    keras.utils.set_random_seed(config.seed)
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
    if used:
        return tf.config.experimental.get_device_details(used[0]).get("device_name", "GPU")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"CPU, {cores} cores"


@contextmanager
def enough_memory(config: Config, vocab_size: int) -> Iterator[None]:
    """Rejects training that cannot fit, before memory is allocated; turns out-of-memory into one line.

    The check comes first because Linux overcommits memory: without it the kernel may kill the process.
    The memory of a GPU is not checked in advance.

    Raises:
      UserError: with the sizes, an estimate of what they need, and the setting to lower.
    """
    if not tf.config.get_visible_devices("GPU"):
        check_training_fits(config, vocab_size)
    try:
        yield
    except (MemoryError, tf.errors.ResourceExhaustedError):
        raise UserError(f"out of memory: {needed_to_train(config, vocab_size)}") from None
