"""The replicas of a model: copies on several devices, of one process or of several."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.distribution.cluster import Cluster


class Replicas:
    """The replicas that a batch is divided among, and how their processes exchange values.

    Every worker has the same number of replicas. They are numbered over all workers; those of the first
    worker come first. All workers call the methods that exchange values, in the same order.

    Args:
      strategy: of the devices and workers.
      cluster: the workers; None for one process.
      jit_compile: whether the parts of a training step are compiled with XLA.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        cluster: Cluster | None = None,
        jit_compile: bool = True,
    ) -> None:
        self.strategy = strategy
        self.cluster = cluster
        self.count: int = strategy.num_replicas_in_sync
        self.workers = len(cluster.addresses) if cluster else 1
        self.is_first = cluster is None or cluster.index == 0
        self.jit_compile = jit_compile
        self._summed = tf.function(self._sum, reduce_retracing=True)

    def scope(self) -> AbstractContextManager[Any]:
        """Returns a context in which variables are created on every replica."""
        return self.strategy.scope()

    def per_replica(self, value: Callable[[int], Any]) -> Any:
        """Returns a value for `run` that differs between replicas: `value` of the number of each."""
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(value(int(context.replica_id_in_sync_group)))
        )

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a function on each replica of this worker; returns what the first of them returns."""
        results = self.strategy.run(function, args=args)
        return tf.nest.map_structure(
            lambda result: self.strategy.experimental_local_results(result)[0], results
        )

    def current(self) -> int:
        """Returns the number of the replica that calls. To be called within `run`."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return int(tf.get_static_value(replica))

    def sum(self, tensors: Sequence[Any]) -> list[Any]:
        """Sums tensors over all replicas. To be called within `run`."""
        context = tf.distribute.get_replica_context()
        # Tensors without a device cannot be reduced.
        tensors = [tf.identity(tensor) for tensor in tensors]
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)

    def sum_over_workers(self, values: Any) -> np.ndarray:
        """Returns the sum of the arrays of all workers, float64 of the shape of `values`."""
        values = np.asarray(values, np.float64)
        if self.workers == 1:
            return values
        first = self.cluster.index * self.count // self.workers  # type: ignore[union-attr]
        return self._summed(
            self.per_replica(lambda replica: values if replica == first else np.zeros_like(values))
        ).numpy()

    def gather(self, record: Any) -> list[Any]:
        """Returns the records of all workers, JSON values, in their order."""
        if self.workers == 1:
            return [record]
        assert self.cluster
        text = json.dumps(record).encode()
        lengths = np.zeros(self.workers)
        lengths[self.cluster.index] = len(text)
        lengths = self.sum_over_workers(lengths).astype(int)
        texts = np.zeros((self.workers, lengths.max()))
        texts[self.cluster.index, : len(text)] = list(text)
        texts = self.sum_over_workers(texts).astype(np.uint8)
        rows = zip(texts, lengths, strict=True)
        return [json.loads(row[:length].tobytes()) for row, length in rows]

    def from_first(self, record: Any) -> Any:
        """Returns the record of the first worker; those of the others are ignored."""
        return self.gather(record if self.is_first else None)[0]

    def _sum(self, part: Any) -> Any:
        return self.run(lambda part: self.sum([part])[0], part)
