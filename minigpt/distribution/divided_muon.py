"""Muon whose matrices are divided among replicas."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from minigpt.distribution.replicas import Replicas
from minigpt.training.optimizers import Muon


@keras.saving.register_keras_serializable("minigpt")
class DividedMuon(Muon):
    """`Muon` in which each replica orthogonalizes a share of the matrices and sends it to the others.

    Every replica computes everything else, which is little: clipping, decay, momentums and Adam's updates.
    All variables are whole on every replica, so a checkpoint does not depend on the number of replicas.

    It cannot accumulate gradients or be within a `LossScaleOptimizer`. These update within a condition,
    where replicas cannot exchange tensors.

    Args:
      replicas: those of the model. Gradients are already summed over them.
      **settings: of `Muon`.
    """

    def __init__(self, replicas: Replicas, **settings: Any) -> None:
        super().__init__(name="muon", **settings)
        assert not self.gradient_accumulation_steps and not self.use_ema
        self.replicas = replicas
        # Passed from `update_variables` to `run_update`. Keras tracks lists, but not this object.
        self._share = SimpleNamespace()

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Returns a `Muon`: a saved model is loaded without replicas."""
        return Muon.from_config(config, custom_objects)

    def run_update(self, update: Callable[[Any], None], gradients: Any) -> None:
        self._share.replica = self.replicas.current()

        def begin(gradients: Any) -> list[Any]:
            update(gradients)
            return self._share.updates

        def end(updates: Any) -> None:
            for variables, stacked in zip(self._share.groups, updates, strict=True):
                self._subtract(variables, stacked, self.learning_rate)

        # XLA cannot compile an exchange between replicas: what precedes and what follows it are compiled.
        updates = self._compiled(begin)(gradients)
        if updates:
            self._compiled(end)(self.replicas.sum(updates))

    def update_variables(self, gradients: Any, variables: Any, learning_rate: Any) -> None:
        """Updates all but the matrices, and computes the updates of this replica's matrices."""
        groups = self._update_others(gradients, variables, learning_rate)
        self._share.groups = [of_group for _, of_group, _ in groups]
        self._share.updates = self._updates_of(self._share.replica, groups)

    def _updates_of(self, replica: int, groups: Sequence[Any]) -> list[Any]:
        """Returns the updates of a replica's matrices, float[N, R, C] per group; zeros for those of others.

        Their sums over the replicas are exact: a number and zeros. All replicas divide the groups alike,
        which are in the order of the variables.
        """
        sizes = [len(variables) for _, variables, _ in groups]
        costs = [
            sum(_multiplications(variables[0].shape[0], width) for width in parts)
            for _, variables, parts in groups
        ]
        updates = []
        for group, counts in zip(groups, divide(sizes, costs, self.replicas.count), strict=True):
            directions = self._directions(*group[:2])
            first, own = sum(counts[:replica]), counts[replica]
            share = directions[first : first + own]
            if own:
                share = self._orthogonalize_parts(share, group[2])
            others = [[first, sum(counts) - first - own], [0, 0], [0, 0]]
            updates.append(tf.pad(share, others))
        return updates


def divide(sizes: Sequence[int], costs: Sequence[int], replicas: int) -> list[list[int]]:
    """Divides groups of matrices among replicas so that all have about the same work.

    Args:
      sizes: number of matrices of each group.
      costs: of one matrix of each group.
      replicas: their number.
    Returns:
      for each group, the number of matrices of each replica.
    """
    counts = [[0] * replicas for _ in sizes]
    work = [0] * replicas
    # The largest come first; each goes to the replica with the least work.
    for group in sorted(range(len(sizes)), key=lambda group: -costs[group]):
        for _ in range(sizes[group]):
            replica = work.index(min(work))
            counts[group][replica] += 1
            work[replica] += costs[group]
    return counts


def _multiplications(rows: int, columns: int) -> int:
    """Returns those of five Newton–Schulz steps; see `training.optimizers.updates._orthogonalized`."""
    rows, columns = sorted((rows, columns))
    if columns >= 2 * rows:
        return rows * rows * (4 * columns + 14 * rows)
    return rows * rows * (10 * columns + 5 * rows)
