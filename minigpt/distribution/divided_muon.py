"""Muon whose matrices are divided among replicas."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from minigpt.distribution.replicas import Replicas
from minigpt.training.optimizers.updates import Muon


@keras.saving.register_keras_serializable("minigpt")
class DividedMuon(Muon):
    """`Muon` in which each replica orthogonalizes a share of the matrices and sends it to the others.

    Every replica computes everything else. All variables are whole on every replica, so a checkpoint does
    not depend on their number. It cannot accumulate gradients or be within a `LossScaleOptimizer`: these
    update within a condition, where replicas cannot exchange tensors.

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

        Their sums over the replicas are exact: a number and zeros. All replicas divide the groups alike.
        """
        updates, replicas, before = [], self.replicas.count, 0
        for gradients, variables, parts in groups:
            directions, number = self._directions(gradients, variables), len(variables)
            # As many as if the matrices of all groups were given out in turn.
            counts = [
                len(range((r - before) % replicas, number, replicas)) for r in range(replicas)
            ]
            before += number
            first, own = sum(counts[:replica]), counts[replica]
            share = directions[first : first + own]
            if own:
                share = self._orthogonalize_parts(share, parts)
            updates.append(tf.pad(share, [[first, number - first - own], [0, 0], [0, 0]]))
        return updates
