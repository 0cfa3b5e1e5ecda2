"""Rejects training that does not fit into memory, and reports training that ran out of memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from minigpt.config import Config
from minigpt.errors import UserError
from minigpt.models.memory_estimate import check_training_fits, needed_to_train


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
