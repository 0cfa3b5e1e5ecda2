"""What the processes of a training decide together."""

from minigpt.distribution.replicas import Replicas
from minigpt.errors import UserError
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.callbacks.interrupt import Interrupt, TrainingInterrupted


class Agreement:
    """Ends training at the same update in all workers, whichever of them wants it.

    The time limit is the first worker's, whose clock may also change the number of updates. Every worker
    can be interrupted.

    Args:
      replicas: of all workers.
      checkpointing: counts batches.
      interrupt: receives Ctrl-C in this worker. It does not act on it by itself.
    """

    def __init__(
        self, replicas: Replicas, checkpointing: Checkpointing, interrupt: Interrupt
    ) -> None:
        self.replicas = replicas
        self.checkpointing = checkpointing
        self.interrupt = interrupt

    def __call__(self) -> bool:
        """Makes the decisions of all workers the same, after each update and each epoch.

        Returns:
          whether the epoch, or the training, ends here; never within an accumulated update.
        Raises:
          TrainingInterrupted: a worker was interrupted, and the state can be saved.
          UserError: another worker has failed, and says why.
        """
        checkpointing, limits = self.checkpointing, self.checkpointing.clock.limits
        model, step = checkpointing.model, checkpointing.clock.step
        if self._is_within_update:
            return False
        end = limits.end(step) if self.replicas.is_first else 0
        stop, interrupted, end, failed = self.replicas.sum_over_workers(
            [model.stop_training, self.interrupt.requested, end, 0]
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
        accumulated = self.checkpointing.config.training.accumulate_steps
        return bool(self.checkpointing.clock.batches % accumulated)
