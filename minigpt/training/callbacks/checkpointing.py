"""When the state of a training is saved, what belongs to it, and how it comes back."""

import time
from typing import Any

import keras
import numpy as np

from minigpt.config import Config, config_record
from minigpt.errors import UserError
from minigpt.models.state import arrays_of, restore, restore_metrics
from minigpt.runs.checkpoints import (
    Checkpoint,
    best_checkpoint_name,
    checkpoint_name,
    checkpoint_paths,
    remove_checkpoints,
    write_checkpoint,
)
from minigpt.runs.progress import TrainingProgress
from minigpt.runs.run import Run
from minigpt.training.callbacks.basic import BestSoFar, Clock, TrainingDiverged

# Of the time between two saves, saving takes at most one part of so many, unless steps are asked for.
LEAST_SHARE = 50


class Checkpointing(keras.callbacks.Callback):
    """Saves all that a training needs to go on as if it had not been interrupted.

    At the end of every epoch, and between by steps or seconds; always between two weight updates. Last
    of the callbacks that write at the end of an epoch: a checkpoint says that the lines of all its epochs
    are on the disk.

    Args:
      run: whose checkpoints these are.
      config: the settings.
      clock: counts; its plan is saved too.
      best: knows the best epoch, whose checkpoint is kept.

    Attributes:
      epoch: epochs that have ended.
      batch: batches of the next one that are done.
      seconds: spent on saving, in this process.
    """

    def __init__(self, run: Run, config: Config, clock: Clock, best: BestSoFar) -> None:
        super().__init__()
        self.run = run
        self.config = config
        self.clock = clock
        self.best = best
        self.epoch = self.batch = 0
        self.seconds = 0.0
        self._saved_at: tuple[int, int] | None = None
        self._arrays: dict[str, np.ndarray] = {}
        self._ended = time.perf_counter()
        self._took = 0.0

    def restore(self, model: keras.Model, checkpoint: Checkpoint) -> None:
        """Puts a training that has not begun to where a checkpoint was made.

        Raises:
          UserError: the checkpoint is of a model or an optimizer of other sizes.
        """
        if checkpoint.progress.batch >= self.batches_per_epoch:
            raise UserError(
                f"{checkpoint.path}: has batch {checkpoint.progress.batch:,} of an epoch of "
                f"{self.batches_per_epoch:,}; should lie within it"
            )
        try:
            restore(model, checkpoint.arrays)
        except ValueError as error:
            raise UserError(f"{checkpoint.path}: does not fit the settings: {error}") from None
        progress = checkpoint.progress
        self.epoch, self.batch = progress.epoch, progress.batch
        self.clock.restore(progress.clock)
        self.best.best, self.best.epochs_since = progress.best, progress.epochs_since_best
        self._saved_at = (self.epoch, self.batch)
        self._arrays = checkpoint.arrays

    @property
    def batches_per_epoch(self) -> int:
        training = self.config.training
        assert training.steps_per_epoch is not None  # Resolved.
        return training.steps_per_epoch * training.accumulate_steps

    @property
    def is_within_epoch(self) -> bool:
        """Whether a weight update has ended and more of this epoch follow: a moment to save.

        The end of the epoch follows its last update at once, and saves.
        """
        last = self.model.stop_training or self.batch == self.batches_per_epoch
        return not last and self.batch % self.config.training.accumulate_steps == 0

    @property
    def is_at_epoch_end(self) -> bool:
        """Whether the epoch's last update runs or has ended: what is saved next is the epoch's end."""
        left = self.batches_per_epoch - self.batch
        return (
            left <= self.config.training.accumulate_steps or self.clock.step + 1 >= self.clock.end
        )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.batch:
            # The means over the epoch so far; `fit` has just set them to nothing.
            restore_metrics(self.model, self._arrays)
        self._arrays = {}
        self._ended = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # Keras counts from 0 where a training goes on within an epoch.
        self.batch += 1
        if self.is_within_epoch and self._is_due():
            self.save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epoch, self.batch = epoch + 1, 0
        if self.best.best and self.best.best.epoch == self.epoch:
            # Of an earlier training, which this one extends: it is not the best any more. Before the
            # checkpoint says so: killed in between, the best is that of the one before.
            self.run.model_file.unlink(missing_ok=True)
        self.save()

    def save(self) -> None:
        """Writes a checkpoint of this moment, unless there is one, and removes those not to be kept.

        Raises:
          TrainingDiverged: a weight or an optimizer's slot is no number; nothing was written.
          OSError: it cannot be written; what was saved before stays.
        """
        if self._saved_at == (self.epoch, self.batch):
            return
        began = time.perf_counter()
        arrays = arrays_of(self.model)
        if not all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f"):
            raise TrainingDiverged(self.clock.step, float("nan"))
        name = checkpoint_name(self.clock.step, None if self.batch else self.epoch)
        write_checkpoint(self.run.checkpoints_folder, name, arrays, self._progress())
        self.remove_old(name)
        if self.clock.plan.changes != self.config.training.step_limits:
            self.run.replace_config(self.config_with_plan())
        self._saved_at = (self.epoch, self.batch)
        self._ended = time.perf_counter()
        self._took = self._ended - began
        self.seconds += self._took
        self.clock.spent_beside(self._took)

    def config_with_plan(self) -> Config:
        """The settings, with what the clock has made of the plan."""
        plan = {"step_limits": self.clock.plan.changes}
        return self.config.model_copy(
            update={"training": self.config.training.model_copy(update=plan)}
        )

    def _is_due(self) -> bool:
        training = self.config.training
        steps, seconds = training.checkpoint_every_steps, training.checkpoint_every_seconds
        if steps and self.clock.step % steps == 0:
            return True
        since = time.perf_counter() - self._ended
        return seconds is not None and since >= max(seconds, LEAST_SHARE * self._took)

    def _progress(self) -> TrainingProgress:
        return TrainingProgress(
            step=self.clock.step,
            epoch=self.epoch,
            batch=self.batch,
            clock=self.clock.state(),
            given_plan=self.config.training.step_limits,
            plan=self.clock.plan.changes,
            best=self.best.best,
            epochs_since_best=self.best.epochs_since,
            config=config_record(self.config),
        )

    def remove_old(self, newest: str) -> None:
        """Removes the checkpoints that are not to be kept when this is the newest that is sound."""
        names = [path.name for path in checkpoint_paths(self.run.checkpoints_folder)]
        # What stands behind the newest is broken: the training has come from before it.
        names = names[: names.index(newest) + 1]
        newest_ones = names[-self.config.training.keep_checkpoints :]
        # Each may have to be gone back to, and then its best is asked for.
        best_ones = (
            best_checkpoint_name(self.run.checkpoints_folder / name) for name in newest_ones
        )
        remove_checkpoints(self.run.checkpoints_folder, {*newest_ones, *filter(None, best_ones)})
