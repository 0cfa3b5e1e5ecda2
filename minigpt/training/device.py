"""The device that training runs on."""

import os

import keras
import tensorflow as tf

from minigpt.config import TrainingConfig
from minigpt.errors import UserError


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
