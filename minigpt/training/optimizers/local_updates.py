"""Optimizers that update a replica's own variables."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf


class LocalUpdates:
    """A mixin for Keras' optimizers, which apply the gradients that they are given as they are.

    Keras sums gradients over the replicas of `tf.distribute` after it has clipped and accumulated those of
    each replica. With this mixin they are summed before `apply`, so that several replicas clip and
    accumulate the same gradients as one. Every replica then updates its own variables, alike.

    Keras has no public way to change how an update is made. tests/test_private_names.py
    fails if a name that is overridden here disappears.

    Attributes:
      compiles_updates: whether an update is compiled with XLA separately. Not needed within a function that
        is compiled as a whole.
    """

    compiles_updates = False

    # Keras clips, decays and updates here. To compile all of it, but not the count of the batches.
    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> None:
        # The implementation of Keras.
        apply_all = super()._backend_apply_gradients  # type: ignore[misc]
        self.run_update(lambda gradients: apply_all(gradients, trainable_variables), grads)

    # Keras sums the gradients over the replicas here.
    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        self.update_variables(grads, trainable_variables, learning_rate)

    # Keras' own calls the strategy of the replicas, which XLA cannot compile.
    def _backend_increment_gradient_accumulators(self, grads: Any, acc_grads: Any) -> None:
        for gradient, accumulated in zip(grads, acc_grads, strict=True):
            self.assign_add(accumulated, gradient)  # type: ignore[attr-defined]

    def run_update(self, update: Callable[[Any], None], gradients: Any) -> None:
        """Makes an update.

        Args:
          update: clips gradients, decays the weights, and calls `update_variables`.
          gradients: one for each variable.
        """
        self._compiled(update)(gradients)

    def update_variables(self, gradients: Any, variables: Any, learning_rate: Any) -> None:
        """Updates variables from their clipped gradients."""
        for gradient, variable in zip(gradients, variables, strict=True):
            self.update_step(gradient, variable, learning_rate)  # type: ignore[attr-defined]

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that is compiled with XLA if updates are."""
        if not self.compiles_updates:
            return function
        compiled: Callable[..., Any] = tf.function(function, jit_compile=True, autograph=False)
        return compiled


class LocalDecay(LocalUpdates):
    """`LocalUpdates` for optimizers whose weight decay is that of Keras' base class."""

    # Keras' own calls the strategy of the replicas, which XLA cannot compile.
    def _apply_weight_decay(self, variables: Any) -> None:
        if self.weight_decay is None:  # type: ignore[attr-defined]
            return
        decay, rate = self.weight_decay, self.learning_rate  # type: ignore[attr-defined]
        for variable in variables:
            # Only variables that `exclude_from_weight_decay` has not excluded.
            if self._use_weight_decay(variable):  # type: ignore[attr-defined]
                change = tf.convert_to_tensor(variable.value) * decay * rate
                self.assign_sub(variable, change)  # type: ignore[attr-defined]


@keras.saving.register_keras_serializable("minigpt")
class SGD(LocalDecay, keras.optimizers.SGD):
    """`keras.optimizers.SGD` with local updates."""


@keras.saving.register_keras_serializable("minigpt")
class Adam(LocalDecay, keras.optimizers.Adam):
    """`keras.optimizers.Adam` with local updates."""


@keras.saving.register_keras_serializable("minigpt")
class AdamW(LocalDecay, keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` with local updates."""
