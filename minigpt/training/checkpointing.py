"""Saves and restores the state of training, and tracks the best state."""

import math
import time

import keras
import numpy as np

from minigpt.config import Config, config_record
from minigpt.models.state import arrays_of, restore
from minigpt.runs.checkpoints import (
    Best,
    Checkpoint,
    TrainingProgress,
    best_checkpoint_name,
    remove_checkpoints,
    write_checkpoint,
)
from minigpt.runs.layout import checkpoint_name, checkpoint_paths
from minigpt.runs.run import Run
from minigpt.training.clock import Clock
from minigpt.training.metrics import Records
from minigpt.training.stopping import diverged

# Saving takes at most 1 / MIN_INTERVAL of the time, unless checkpoint_every_steps asks for more.
MIN_INTERVAL = 50


class Checkpointing:
    """Saves everything that is needed to continue training as if it had not been interrupted.

    A state is saved between two weight updates. The lines of all its updates and epochs are on disk before.
    Later workers only count.

    Attributes:
      epoch: epochs that have ended.
      batch: batches of the next epoch that are done.
      best: the best state by validation loss; None before the first validation.
      epochs_since_best: validations since then.
    """

    def __init__(
        self, run: Run, config: Config, model: keras.Model, clock: Clock, records: Records
    ) -> None:
        self.run, self.config, self.model, self.clock = run, config, model, clock
        self.records = records
        self.epoch = self.batch = 0
        self.best: Best | None = None
        self.epochs_since_best = 0
        self._judged_step = -1
        self._saved_at: tuple[int, int] | None = None
        self._save_end = time.perf_counter()
        self._save_seconds = 0.0

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restores the model and the counts from a checkpoint of this run, before training."""
        progress = checkpoint.progress
        restore(self.model, checkpoint.arrays)
        self.clock.restore(progress.clock)
        self.epoch, self.batch = self._saved_at = progress.epoch, progress.batch
        done = self.batch // self.config.training.accumulate_steps
        self.clock.epoch_step = self.clock.step - done
        self.best, self.epochs_since_best = progress.best, progress.epochs_since_best

    @property
    def batches_per_epoch(self) -> int:
        training = self.config.training
        return training.updates_per_epoch * training.accumulate_steps

    @property
    def epochs_done(self) -> float:
        """The number of epochs that are done: 1.25; an integer between two epochs."""
        if not self.batch:
            return self.epoch
        return round(self.epoch + self.batch / self.batches_per_epoch, 6)

    def is_time(self, every: int) -> bool:
        """Whether `every` more updates have ended within an epoch."""
        is_within = self.clock.is_update and self.batch < self.batches_per_epoch
        return bool(every) and is_within and self.clock.step % every == 0

    @property
    def is_within_epoch(self) -> bool:
        """Whether a weight update has ended and is not the last one of its epoch.

        A checkpoint is written at the end of the epoch, immediately after its last update.
        """
        is_last = self.model.stop_training or self.batch == self.batches_per_epoch
        return not is_last and self.clock.is_update

    def judge(self, loss: float) -> None:
        """Compares the state with the best one, and stops training that no longer improves."""
        step = self.clock.step
        # An epoch that is ended early may end at a state that was judged before, under another name.
        is_best = self.best is None or loss < self.best.val_loss or self.is_best
        self.epochs_since_best += self._judged_step != step
        self._judged_step = step
        if math.isfinite(loss) and is_best:
            self.epochs_since_best = 0
            epoch = self.epoch + bool(self.batch)
            self.best = Best(val_loss=loss, epoch=epoch, checkpoint=self._name)
        if self.is_out_of_patience:
            self.model.stop_training = True

    @property
    def is_best(self) -> bool:
        """Whether the present state is the best one."""
        return self._judged_step == self.clock.step and not self.epochs_since_best

    @property
    def is_out_of_patience(self) -> bool:
        patience = self.config.training.early_stopping_patience
        return patience is not None and self.epochs_since_best >= patience

    @property
    def _name(self) -> str:
        return checkpoint_name(self.clock.step, None if self.batch else self.epoch)

    def save_if_due(self) -> None:
        """Saves the state within an epoch, if it is the best one, or after some steps or seconds."""
        if self.is_within_epoch and (self.is_best or self._is_due()):
            with self.clock.overhead():
                self.save()

    def save(self) -> None:
        """Writes a checkpoint unless the state is saved already, and removes old ones.

        Raises:
          UserError: a weight or an optimizer slot is nan or infinite; nothing was written.
          OSError: the checkpoint cannot be written; earlier checkpoints are kept.
        """
        if not self.records.writes or self._saved_at == (self.epoch, self.batch):
            return
        start = time.perf_counter()
        arrays = arrays_of(self.model)
        if not all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f"):
            raise diverged(self.run, self.config.training, self.clock.step, float("nan"))
        if self.is_best:
            # If training was extended, the model.keras written earlier is no longer the best. It is removed
            # before the checkpoint that records this is written: if the process is killed in between,
            # the best model is that of the previous checkpoint.
            self.run.model_file.unlink(missing_ok=True)
        self.records.flush()
        write_checkpoint(self.run.checkpoints_folder, self._name, arrays, self._progress())
        self.remove_old(self._name)
        if self.clock.limits.changes != self.config.training.step_limits:
            self.write_limits()
        self._saved_at = (self.epoch, self.batch)
        self._save_end = time.perf_counter()
        self._save_seconds = self._save_end - start

    def write_limits(self) -> None:
        """Records the settings, with the step limits that the clock has set."""
        self.run.replace_config(self.config.with_training(step_limits=self.clock.limits.changes))

    def remove_old(self, newest: str) -> None:
        """Removes the checkpoints that are not kept when `newest` is the newest undamaged one."""
        names = [path.name for path in checkpoint_paths(self.run.checkpoints_folder)]
        # Newer ones are damaged: training was resumed from an older one.
        names = names[: names.index(newest) + 1]
        kept = names[-self.config.training.keep_checkpoints :]
        # Training may be resumed from each of them, which requires the best checkpoint as of that step.
        best_ones = (best_checkpoint_name(self.run.checkpoints_folder / name) for name in kept)
        remove_checkpoints(self.run.checkpoints_folder, {*kept, *filter(None, best_ones)})

    def _is_due(self) -> bool:
        training = self.config.training
        steps, seconds = training.checkpoint_every_steps, training.checkpoint_every_seconds
        if steps and self.clock.step % steps == 0:
            return True
        elapsed = time.perf_counter() - self._save_end
        return seconds is not None and elapsed >= max(seconds, MIN_INTERVAL * self._save_seconds)

    def _progress(self) -> TrainingProgress:
        return TrainingProgress(
            step=self.clock.step,
            epoch=self.epoch,
            batch=self.batch,
            clock=self.clock.state,
            given_plan=self.config.training.step_limits,
            plan=self.clock.limits.changes,
            best=self.best,
            epochs_since_best=self.epochs_since_best,
            config=config_record(self.config),
        )
