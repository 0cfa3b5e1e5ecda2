"""Training on several replicas: its step, its epochs as in `Model.fit`, and the agreement on its end."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from minigpt.distribution.connection import LOST
from minigpt.distribution.replicas import Replicas
from minigpt.errors import UserError
from minigpt.models.language_model import LanguageModel
from minigpt.training.callbacks.ending import TrainingInterrupted
from minigpt.training.loop import TrainingLoop
from minigpt.training.tasks.task import Batch, Task


class ReplicatedStep:
    """One batch of training on all replicas, with the results of one device up to rounding.

    Each replica computes the gradients of its rows. They are summed, and every replica makes the same
    update. With `training.accumulate_steps`, each replica accumulates its own gradients, and only those
    of an update are summed.

    Args:
      task: the batches.
      model: built within the scope of the replicas, and compiled.
      replicas: of the model.
    """

    def __init__(self, task: Task, model: LanguageModel, replicas: Replicas) -> None:
        self.task = task
        self.model = model
        self.replicas = replicas
        # Scaled gradients of float16 can overflow, which must not depend on the replica: all are summed.
        self._scales_loss = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        self._accumulate_steps = task.config.training.accumulate_steps
        self._gradients = tf.function(
            model.loss_and_gradients, jit_compile=replicas.jit_compile, autograph=False
        )
        self._step = tf.function(self._all_replicas, autograph=False)

    def __call__(self, number: int) -> dict[str, Any]:
        """Computes the gradients of a batch, and updates the weights if it completes an update.

        Args:
          number: of the batch, from 0.
        Returns:
          the metrics by name.
        """
        count = self.replicas.count
        inputs, targets, weights = _with_rows(self.task.batch(number), count)
        rows = len(targets)

        def part(array: Any) -> Any:
            def of(replica: int) -> Any:
                return array[rows * replica // count : rows * (replica + 1) // count]

            return self.replicas.per_replica(of)

        first_row = self.replicas.per_replica(lambda replica: rows * replica // count)
        is_update = (number + 1) % self._accumulate_steps == 0
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
                variable
                for variable in optimizer.variables
                if variable.name.endswith("_gradient_accumulator")
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


def replicated_fit(
    step: ReplicatedStep,
    loop: TrainingLoop,
    callbacks: list[keras.callbacks.Callback],
    epochs: int,
    steps_per_epoch: int,
) -> None:
    """Trains and calls callbacks like `Model.fit`, which fails with `MultiWorkerMirroredStrategy`.

    Args:
      step: one batch of training.
      loop, callbacks, epochs, steps_per_epoch: as for `Strategy.fit`.
    """
    model, batch = loop.model, loop.clock.batches
    agreement = Agreement(step.replicas, loop)
    listed = keras.callbacks.CallbackList(
        callbacks, add_history=True, model=model, epochs=epochs, steps=steps_per_epoch
    )
    model.stop_training = False
    listed.on_train_begin()
    logs: dict[str, float] = {}
    for epoch in range(loop.checkpointing.epoch, epochs):
        model.reset_metrics()
        listed.on_epoch_begin(epoch)
        for index in range(steps_per_epoch):
            listed.on_train_batch_begin(index)
            logs = step(batch)
            batch += 1
            with _announced(agreement):
                listed.on_train_batch_end(index, logs)
            if agreement():
                break
        logs = {name: float(value) for name, value in model.get_metrics_result().items()}
        with _announced(agreement):
            listed.on_epoch_end(epoch, logs)
        if agreement():
            break
    listed.on_train_end(logs)


class Agreement:
    """Ends training at the same update in all workers, whichever of them stops it.

    The time limit is the first worker's, whose clock may also change the number of updates. Every worker
    can be interrupted.

    Args:
      replicas: of all workers.
      loop: counts batches, and receives Ctrl-C in this worker. It does not stop on Ctrl-C by itself.
    """

    def __init__(self, replicas: Replicas, loop: TrainingLoop) -> None:
        self.replicas = replicas
        self.loop = loop

    def __call__(self) -> bool:
        """Makes the decisions of all workers the same, after each update and each epoch.

        Returns:
          whether the epoch, or training, ends here; never within an accumulated update.
        Raises:
          TrainingInterrupted: a worker was interrupted, and the state can be saved.
          UserError: another worker has failed, and says why.
        """
        checkpointing, clock = self.loop.checkpointing, self.loop.clock
        model, step, limits = self.loop.model, clock.step, clock.limits
        if self._is_within_update:
            return False
        end = limits.end(step) if self.replicas.is_first else 0
        stop, interrupted, end, failed = self.replicas.sum_over_workers(
            [model.stop_training, self.loop.interrupt.requested, end, 0]
        )
        if failed:
            raise UserError("training has ended, because another worker failed; see its message")
        if end != limits.end(step):
            limits.change(step, int(end))
        model.stop_training = bool(stop)
        if interrupted and (checkpointing.is_within_epoch or not checkpointing.batch):
            raise TrainingInterrupted
        return bool(stop)

    def fail(self) -> None:
        """Ends the other workers, which are about to agree, before this one ends with an error."""
        if not self._is_within_update:
            self.replicas.sum_over_workers([0, 0, 0, 1])

    @property
    def _is_within_update(self) -> bool:
        # The clock is the first callback: its count is right in the others, too.
        return bool(self.loop.clock.batches % self.loop.training.accumulate_steps)


@contextmanager
def _announced(agreement: Agreement) -> Iterator[None]:
    """Tells the other processes if a callback fails: they would report that this one has ended."""
    try:
        yield
    except (UserError, OSError):
        # If another worker is lost as well, the first reason is reported.
        with suppress(*LOST):
            agreement.fail()
        raise
