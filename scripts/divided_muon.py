"""Muon whose matrices are divided among replicas, for measure_muon.py. Training does not use it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from minigpt.distribution.replicas import Replicas
from minigpt.training.optimizers.local_updates import LocalUpdates
from minigpt.training.optimizers.muon import Muon

Shape = tuple[int, int]


class DividedMuon(Muon):
    """`Muon` in which each replica orthogonalizes a share of the matrices and sends it to the others.

    Every replica computes everything else, which is little: all momentums, decay, and Adam's updates. The
    state is that of `Muon` and does not depend on the number of replicas.

    It cannot accumulate gradients or be within a `LossScaleOptimizer`: these update within a condition,
    where replicas cannot exchange values.

    Attributes:
      replicas: those of the model.
      exchange: "sum", an all-reduce of all matrices, with zeros for those of others; "gather", an
        all-gather of the shares; None: every replica updates all matrices.
    """

    replicas: Replicas
    exchange: str | None = None

    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> None:
        if self.exchange is None:
            super()._backend_apply_gradients(grads, trainable_variables)
            return
        apply_all = super(LocalUpdates, self)._backend_apply_gradients
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        replica = int(tf.get_static_value(replica))
        # Variables of equal shape; the shapes of their matrices; what to orthogonalize; the learning rate.
        groups: list[tuple[Any, list[Shape], Any, Any]] = []

        def begin(gradients: Any) -> Any:
            self._collect = groups.append  # Keras would copy a list.
            apply_all(gradients, trainable_variables)
            return self._share(groups, replica)

        def end(changes: Any) -> None:
            self._subtract(groups, changes)

        # What replicas exchange cannot be compiled: what precedes and what follows is, each by itself.
        share = self._compiled(begin)(grads)
        self._compiled(end)(self._exchange(share, replica))

    def is_matrix(self, variable: Any) -> bool:
        """Returns whether a variable is orthogonalized, and not updated by Adam."""
        return self.adam_velocities[self._get_variable_index(variable)] is None

    def _exchange(self, share: Any, replica: int) -> Any:
        """float32[M] of each replica → float32[replicas, M] on all of them."""
        if self.exchange == "gather":
            return tf.distribute.get_replica_context().all_gather(share[None], axis=0)
        # The sum of a number and zeros is the number, bit for bit.
        others = [[replica, self.replicas.count - 1 - replica], [0, 0]]
        return self.replicas.sum([tf.pad(share[None], others)])[0]

    def _update_matrices(
        self, gradients: Any, variables: Any, parts: tuple[int, ...], learning_rate: Any
    ) -> None:
        if self.exchange is None:
            super()._update_matrices(gradients, variables, parts, learning_rate)
            return
        directions = tf.unstack(self._directions(gradients, variables))
        matrices = [part for each in directions for part in tf.split(each, parts, axis=-1)]
        shapes = [(variables[0].shape[0], width) for width in parts] * len(variables)
        self._collect((variables, shapes, matrices, learning_rate))

    def _share(self, groups: Any, replica: int) -> Any:
        """float32[M]: the changes of a replica's matrices, one after the other, padded with zeros."""
        shapes = [shape for _, group, *_ in groups for shape in group]
        matrices = [matrix for _, _, group, _ in groups for matrix in group]
        owners = divide(shapes, self.replicas.count)
        own = [index for index, owner in enumerate(owners) if owner == replica]
        by_shape = defaultdict(list)
        for index in own:
            by_shape[shapes[index]].append(index)
        changes: dict[int, Any] = {}
        for indices in by_shape.values():
            stack = tf.stack([matrices[index] for index in indices])
            updates = tf.unstack(self.zeropower_via_newtonschulz5(stack, self.ns_steps))
            changes |= dict(zip(indices, updates, strict=True))
        rate = groups[0][3]
        flat = [tf.reshape(self.lr_adjust(rate * changes[index]), [-1]) for index in own]
        sizes = [0] * self.replicas.count
        for (rows, columns), owner in zip(shapes, owners, strict=True):
            sizes[owner] += rows * columns
        return tf.concat([*flat, tf.zeros(max(sizes) - sizes[replica])], 0)

    def _subtract(self, groups: Any, changes: Any) -> None:
        """Subtracts the changes of all matrices, float32[replicas, M], from the variables."""
        shapes = [shape for _, group, *_ in groups for shape in group]
        used = [0] * self.replicas.count
        matrices = []
        for (rows, columns), owner in zip(shapes, divide(shapes, self.replicas.count), strict=True):
            first = used[owner]
            used[owner] += rows * columns
            matrices.append(tf.reshape(changes[owner, first : used[owner]], [rows, columns]))
        remaining = iter(matrices)
        for variables, group, *_ in groups:
            for variable in variables:
                parts = [next(remaining) for _ in range(len(group) // len(variables))]
                self.assign_sub(variable, tf.concat(parts, -1))


def divide(shapes: Sequence[Shape], count: int) -> list[int]:
    """Returns the replica of each matrix. The largest come first, each to the one with the least work."""
    owners, work = [0] * len(shapes), [0] * count
    for index in sorted(range(len(shapes)), key=lambda index: -_multiplications(shapes[index])):
        owners[index] = work.index(min(work))
        work[owners[index]] += _multiplications(shapes[index])
    return owners


def _multiplications(shape: Shape) -> int:
    """Returns those of five Newton–Schulz steps; see `muon._orthogonalized`."""
    rows, columns = sorted(shape)
    if columns >= 2 * rows:
        return rows * rows * (4 * columns + 14 * rows)
    return rows * rows * (10 * columns + 5 * rows)
