"""Saves and restores the state of training, and tracks the best epoch."""

import math
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from minigpt.config import Config, config_record
from minigpt.errors import UserError
from minigpt.models.state import arrays_of, restore, restore_metrics
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
from minigpt.training.callbacks.callback import Callback, Stage
from minigpt.training.callbacks.clock import Clock
from minigpt.training.failures import diverged

# Saving takes at most 1 / MIN_INTERVAL of the time, unless checkpoint_every_steps asks for more.
MIN_INTERVAL = 50


class BestEpoch(Callback):
    """Tracks the best state by validation loss, and stops training when it no longer improves.

    Args:
      clock: counts the steps, and has the settings.

    Attributes:
      best: the best state; None before the first validation.
      epochs_since: validations since then, one at the end of each epoch.
    """

    stage = Stage.JUDGE

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.best: Best | None = None
        self.epochs_since = 0
        self._epoch, self._judged_step = 0, -1

    def state_dict(self) -> dict[str, Any]:
        return {
            "best": self.best.model_dump() if self.best else None,
            "epochs_since_best": self.epochs_since,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = Best(**state["best"]) if state["best"] else None
        self.epochs_since = state["epochs_since_best"]

    @property
    def is_out_of_patience(self) -> bool:
        patience = self.clock.config.early_stopping_patience
        return patience is not None and self.epochs_since >= patience

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if logs and "val_loss" in logs:
            self._judge(logs["val_loss"], checkpoint_name(self.clock.step))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        self._judge(logs["val_loss"], checkpoint_name(self.clock.step, epoch + 1))

    @property
    def is_reached(self) -> bool:
        """Whether the present state is the best one."""
        return self._judged_step == self.clock.step and not self.epochs_since

    def _judge(self, loss: float, name: str) -> None:
        # An epoch that is ended early may end at a state that was judged before, under another name.
        is_best = self.best is None or loss < self.best.val_loss or self.is_reached
        self.epochs_since += self._judged_step != self.clock.step
        self._judged_step = self.clock.step
        if math.isfinite(loss) and is_best:
            self.epochs_since = 0
            self.best = Best(val_loss=loss, epoch=self._epoch, checkpoint=name)
        if self.is_out_of_patience:
            self.model.stop_training = True


class Checkpointing(Callback):
    """Saves everything that is needed to continue training as if it had not been interrupted.

    It saves at the end of every epoch, and within an epoch by steps or seconds; always between two
    weight updates. It is called after the callbacks that write at the end of an epoch: a checkpoint
    guarantees that the lines of all its epochs are on disk.

    Args:
      run: the run that the checkpoints belong to.
      config: the settings.
      clock: counts the steps.
      best: tracks the best epoch, whose checkpoint is kept.
      writes: False in later workers, which only count.

    Attributes:
      epoch: epochs that have ended.
      batch: batches of the next epoch that are done.
      seconds: time spent on saving, in this process.
      before_saving: called before a checkpoint is written.
    """

    stage = Stage.SAVE

    def __init__(
        self, run: Run, config: Config, clock: Clock, best: BestEpoch, writes: bool = True
    ) -> None:
        super().__init__()
        self.writes = writes
        self.run = run
        self.config = config
        self.clock = clock
        self.best = best
        self.saved = [clock, best, self]
        self.epoch = self.batch = 0
        self.seconds = 0.0
        self.before_saving: list[Callable[[], None]] = []
        self._saved_at: tuple[int, int] | None = None
        self._arrays: dict[str, np.ndarray] = {}
        self._save_end = time.perf_counter()
        self._save_seconds = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.batch = state["epoch"], state["batch"]
        self._saved_at = (self.epoch, self.batch)

    def restore(self, model: keras.Model, checkpoint: Checkpoint) -> None:
        """Restores the model and all callbacks from a checkpoint, before training.

        Raises:
          UserError: the checkpoint belongs to a model or an optimizer of different sizes.
        """
        if checkpoint.progress.batch >= self.batches_per_epoch:
            raise UserError(
                f"{checkpoint.path}: has batch {checkpoint.progress.batch:,} of an epoch of "
                f"{self.batches_per_epoch:,}; should be less"
            )
        try:
            restore(model, checkpoint.arrays)
        except ValueError as error:
            raise UserError(f"{checkpoint.path}: does not fit the settings: {error}") from None
        state = checkpoint.progress.model_dump()
        for callback in self.saved:
            callback.load_state_dict(state)
        self._arrays = checkpoint.arrays

    @property
    def batches_per_epoch(self) -> int:
        training = self.config.training
        return training.updates_per_epoch * training.accumulate_steps

    def epochs_after(self, batches: int) -> float:
        """Returns the number of epochs that are done after some batches of this one: 1.25."""
        return round(self.epoch + batches / self.batches_per_epoch, 6)

    def is_time(self, every: int) -> bool:
        """Whether `every` more updates have ended within an epoch; asked before this is called."""
        done, accumulated = self.batch + 1, self.config.training.accumulate_steps
        is_within = done % accumulated == 0 and done < self.batches_per_epoch
        return bool(every) and is_within and self.clock.step % every == 0

    @property
    def is_within_epoch(self) -> bool:
        """Whether a weight update has ended and is not the last one of its epoch.

        A checkpoint is written at the end of the epoch, immediately after its last update.
        """
        is_last = self.model.stop_training or self.batch == self.batches_per_epoch
        return not is_last and self.batch % self.config.training.accumulate_steps == 0

    @property
    def is_at_epoch_end(self) -> bool:
        """Whether the next checkpoint is the one at the end of the epoch, unless it is saved earlier."""
        left = self.batches_per_epoch - self.batch
        return (
            left <= self.config.training.accumulate_steps or self.clock.step + 1 >= self.clock.end
        )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.batch:
            # The means over the epoch so far, which `fit` has just reset.
            restore_metrics(self.model, self._arrays)
        self._arrays = {}
        self._save_end = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # Not `batch`: Keras counts from 0 in an epoch that is resumed.
        self.batch += 1
        if self.is_within_epoch and (self.best.is_reached or self._is_due()):
            self.save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epoch, self.batch = epoch + 1, 0
        self.save()

    def save(self) -> None:
        """Writes a checkpoint unless the state is saved already, and removes old ones.

        Raises:
          UserError: a weight or an optimizer slot is nan or infinite; nothing was written.
          OSError: the checkpoint cannot be written; earlier checkpoints are kept.
        """
        if not self.writes or self._saved_at == (self.epoch, self.batch):
            return
        start = time.perf_counter()
        arrays = arrays_of(self.model)
        if not all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f"):
            raise diverged(self.run, self.config.training, self.clock.step, float("nan"))
        name = checkpoint_name(self.clock.step, None if self.batch else self.epoch)
        if self.best.is_reached:
            # If training was extended, the model.keras written earlier is no longer the best. It is removed
            # before the checkpoint that records this is written: if the process is killed in between,
            # the best model is that of the previous checkpoint.
            self.run.model_file.unlink(missing_ok=True)
        for prepare in self.before_saving:
            prepare()
        write_checkpoint(self.run.checkpoints_folder, name, arrays, self._progress())
        self.remove_old(name)
        if self.clock.limits.changes != self.config.training.step_limits:
            self.run.replace_config(self.config_with_limits())
        self._saved_at = (self.epoch, self.batch)
        self._save_end = time.perf_counter()
        self._save_seconds = self._save_end - start
        self.seconds += self._save_seconds
        self.clock.add_overhead(self._save_seconds)

    def config_with_limits(self) -> Config:
        """Returns the settings with the step limits that the clock has set."""
        return self.config.with_training(step_limits=self.clock.limits.changes)

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
        state: dict[str, Any] = {"config": config_record(self.config)}
        for callback in self.saved:
            state |= callback.state_dict()
        return TrainingProgress.model_validate(state)
