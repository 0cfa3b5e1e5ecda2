"""The interface of replicas for evaluation and training; `minigpt.distribution` implements it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np


class Replicas(Protocol):
    """The copies of a model on several devices, of one process or of several, that share each batch.

    Attributes:
      count: number of replicas, of all processes.
      workers: number of processes.
      is_first: whether this process is the first worker, which alone writes files.
      jit_compile: whether the parts of a training step are compiled with XLA.
    """

    count: int
    workers: int
    is_first: bool
    jit_compile: bool

    def scope(self) -> AbstractContextManager[Any]:
        """Returns a context in which variables are created on every replica."""

    def map(
        self, function: Any, batches: Iterable[Any], size: Callable[[Any], int]
    ) -> Iterator[np.ndarray]:
        """Yields what a function returns for each batch; the replicas share the batches.

        Args:
          function: called with a batch on a replica, returns float32[N].
          batches: arrays in any structure, the same on all workers.
          size: returns N from a batch.
        """
