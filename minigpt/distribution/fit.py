"""The epochs of training on several replicas, as in `Model.fit`, and their agreement on its end."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import keras

from minigpt.distribution.connection import LOST
from minigpt.distribution.replicas import Replicas
from minigpt.distribution.step import ReplicatedStep
from minigpt.errors import UserError
from minigpt.training.callbacks.ending import TrainingInterrupted
from minigpt.training.loop import TrainingLoop


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
