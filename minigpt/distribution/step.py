"""The training step of several replicas."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from minigpt.config import TrainingConfig
from minigpt.distribution.replicas import Replicas
from minigpt.models.language_model import LanguageModel
from minigpt.training.tasks.task import Batch


class ReplicatedStep:
    """One batch of training on all replicas, with the results of one device up to rounding.

    Each replica computes the gradients of its rows. They are summed, and every replica makes the same
    update. With `training.accumulate_steps`, each replica accumulates its own gradients, and only those
    of an update are summed. The model is built within the scope of the replicas; `batches` are done.
    """

    def __init__(
        self, config: TrainingConfig, model: LanguageModel, replicas: Replicas, batches: int = 0
    ) -> None:
        self.model = model
        self.replicas = replicas
        self._batches = batches
        # Scaled gradients of float16 can overflow, which must not depend on the replica: all are summed.
        self._scales_loss = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        self._accumulate_steps = config.accumulate_steps
        self._gradients = tf.function(
            model.loss_and_gradients, jit_compile=replicas.jit_compile, autograph=False
        )
        self._step = tf.function(self._all_replicas, autograph=False)

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """Returns the metrics by name; updates the weights if the batch completes an update."""
        self._batches += 1
        count = self.replicas.count
        inputs, targets, weights = _with_rows(batch, count)
        rows = len(targets)

        def part(array: Any) -> Any:
            def of(replica: int) -> Any:
                return array[rows * replica // count : rows * (replica + 1) // count]

            return self.replicas.per_replica(of)

        first_row = self.replicas.per_replica(lambda replica: rows * replica // count)
        is_update = self._batches % self._accumulate_steps == 0
        self._step(
            tf.nest.map_structure(part, inputs),
            part(targets),
            None if weights is None else part(weights),
            self.model.loss_weight(targets, weights),
            first_row,
            is_update,
        )
        return self.model.get_metrics_result()

    def _all_replicas(
        self, inputs: Any, targets: Any, weights: Any, tokens: Any, first_row: Any, is_update: bool
    ) -> None:
        def on_replica(inputs: Any, targets: Any, weights: Any, first_row: Any) -> tuple[Any, Any]:
            loss, plain, gradients = self._gradients(inputs, targets, weights, tokens, first_row)
            return self._apply(loss, plain, gradients, is_update)

        loss, plain = self.replicas.run(on_replica, inputs, targets, weights, first_row)
        self.model.record_loss(loss, plain, tokens)

    def _apply(self, loss: Any, plain: Any, gradients: list[Any], is_update: bool) -> Any:
        optimizer = self.model.optimizer
        if self._accumulate_steps > 1 and not self._scales_loss:
            if not is_update:
                optimizer.apply(gradients, self.model.trainable_weights)
                return tuple(self.replicas.sum([loss, plain]))
            # Keras' optimizers have no public list of them; these are in the order of the weights.
            accumulated = [
                v for v in optimizer.variables if v.name.endswith("_gradient_accumulator")
            ]
            gradients = [
                gradient + tf.convert_to_tensor(sum_before)
                for gradient, sum_before in zip(gradients, accumulated, strict=True)
            ]
            for sum_before in accumulated:
                sum_before.assign(tf.zeros(sum_before.shape, sum_before.dtype))
        loss, plain, *gradients = self.replicas.sum([loss, plain, *gradients])
        optimizer.apply(gradients, self.model.trainable_weights)
        return loss, plain


def _with_rows(batch: Batch, count: int) -> Batch:
    """Returns a batch with at least one row for each replica; those that are added have no weight.

    A batch of long pairs may have fewer rows than `training.batch_size`.
    """
    inputs, targets, weights = batch
    rows = len(targets)
    if rows >= count:
        return batch
    assert weights is not None
    indices = np.minimum(np.arange(count), rows - 1)
    weights = weights[indices] * (np.arange(count) < rows)[:, None]
    return tf.nest.map_structure(lambda array: array[indices], inputs), targets[indices], weights
