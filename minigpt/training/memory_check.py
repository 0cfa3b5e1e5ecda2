"""A training that does not fit into memory says so."""

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from minigpt.config import Config
from minigpt.errors import UserError
from minigpt.models.memory_estimate import check_training_fits, needed_to_train


@contextmanager
def enough_memory(config: Config, vocab_size: int) -> Iterator[None]:
    """Refuses a training that cannot fit, before it takes memory, and tells of one that did not.

    Without the first a system may kill the process, or stand still: it gives memory away that it has
    not. What a GPU has is known only when it is used up.

    Raises:
      UserError: the sizes, an estimate of what they need, and which setting to lower.
    """
    if not tf.config.get_visible_devices("GPU"):
        check_training_fits(config, vocab_size)
    try:
        yield
    except (MemoryError, tf.errors.ResourceExhaustedError):
        raise UserError(f"out of memory: {needed_to_train(config, vocab_size)}") from None
