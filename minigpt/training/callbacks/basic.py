"""What happens beside the weight updates: schedule, validation, records, limits."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from minigpt.config import TrainingConfig
from minigpt.runs.checkpoints import checkpoint_name
from minigpt.runs.progress import Best, ClockState
from minigpt.runs.run import Run
from minigpt.training.optimizers.build import learning_rate
from minigpt.training.plan import Plan

# Shares of the time limit at which the plan is held against it: late enough to know the speed, not so
# often that the learning rate follows every breath of the machine.
JUDGED_AT = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
# A plan that would end later than this share of the limit is shortened, one that time has cut and that
# would end sooner than that is stretched, both so that they end at AIM.
LATEST, AIM, SOONEST = 1.01, 0.99, 0.96


class Clock(keras.callbacks.Callback):
    """Counts updates and seconds, and fits the plan to the time limit.

    Attributes:
      step: weight updates made.
      seconds: since training began.
      batches: behind these updates, and of the one that is being made.
      tokens_per_second: of this epoch's updates so far, in this process and without the first, in which
        things compile.
      plan: how many updates there are.
    """

    def __init__(self, config: TrainingConfig, plan: Plan, tokens_per_step: float) -> None:
        super().__init__()
        self.config = config
        self.plan = plan
        self.tokens_per_step = tokens_per_step
        # Who repeats a run wants its updates, not new ones in the time that is left.
        self.may_stretch = not config.step_limits
        self.tokens_per_second = 0.0
        self.batches = 0
        self._seconds_before = 0.0
        self._began = self._first_ended = self._batch_ended = time.perf_counter()
        self._has_begun = False
        self._timed_in_epoch = -1
        self._epoch_step = 0
        # Seconds of the batches since the plan was last judged.
        self._recent: deque[float] = deque(maxlen=1000)
        # Seconds of this epoch that were no updates, and of all the last one had, for each update.
        self._beside = self._beside_a_step = 0.0
        self._judged_until = 0.0
        self._resumed = False

    def state(self) -> ClockState:
        """What another process' clock needs to go on from here."""
        return ClockState(
            batches=self.batches,
            seconds=self.seconds,
            epoch_step=self._epoch_step,
            beside_a_step=self._beside_a_step,
        )

    def restore(self, state: ClockState) -> None:
        """Goes on from the `state` of another one; before training begins."""
        self.batches = state.batches
        self._seconds_before = state.seconds
        self._epoch_step = state.epoch_step
        self._beside_a_step = state.beside_a_step
        self._resumed = True

    @property
    def step(self) -> int:
        return self.batches // self.config.accumulate_steps

    @property
    def seconds(self) -> float:
        return self._seconds_before + self.seconds_here

    @property
    def seconds_here(self) -> float:
        """Those of this process."""
        return time.perf_counter() - self._began

    @property
    def end(self) -> int:
        """The last update's number, as planned now."""
        return self.plan.end(self.step)

    def on_train_begin(self, logs: Any = None) -> None:
        # Not again: one that goes on within an epoch calls `fit` twice.
        if not self._has_begun:
            self._has_begun = True
            self._began = time.perf_counter()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._timed_in_epoch = -1
        if self._resumed:
            # In the midst of an epoch, perhaps, and nothing was done beside it in this process.
            self._resumed = False
            return
        if epoch:
            self._beside += time.perf_counter() - self._batch_ended
            self._beside_a_step = self._beside / max(1, self.step - self._epoch_step)
        self._epoch_step, self._beside = self.step, 0.0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches += 1
        now = time.perf_counter()
        self._timed_in_epoch += 1
        if self._timed_in_epoch == 0:
            self._first_ended = now
        else:
            tokens = self._timed_in_epoch * self.tokens_per_step / self.config.accumulate_steps
            self.tokens_per_second = tokens / (now - self._first_ended)
            self._recent.append(now - self._batch_ended)
        self._batch_ended = now
        if self.batches % self.config.accumulate_steps == 0:
            self._keep_to_time_limit()
            if self.step >= self.end:
                self.model.stop_training = True

    def spent_beside(self, seconds: float) -> None:
        """So much of the time since the last batch was no part of the updates."""
        self._beside += seconds
        self._first_ended += seconds
        self._batch_ended += seconds

    def _keep_to_time_limit(self) -> None:
        limit, seconds = 60 * (self.config.max_minutes or 0), self.seconds
        step, end = self.step, self.end
        if not limit or step >= end:
            return
        if seconds >= LATEST * limit:
            self.plan.change(step, step)
            return
        share = max((share for share in JUDGED_AT if seconds >= share * limit), default=0.0)
        if share <= self._judged_until or len(self._recent) < 10:
            return
        self._judged_until = share
        per_step = self._seconds_a_batch() * self.config.accumulate_steps + self._beside_a_step
        self._recent.clear()
        finish = seconds + (end - step) * per_step
        late = finish > LATEST * limit
        early = end < self.plan.total_steps and finish < SOONEST * limit and self.may_stretch
        if late or early:
            more = max(0.0, AIM * limit - seconds) / per_step
            self.plan.change(step, min(self.plan.total_steps, step + int(more)))

    def _seconds_a_batch(self) -> float:
        # Far more than usual is no update but something that compiles: a new shape of batches.
        most = 8 * statistics.median(self._recent)
        return statistics.fmean(seconds for seconds in self._recent if seconds <= most)


class LearningRate(keras.callbacks.Callback):
    """Sets the learning rate of every update, by the share of the plan that is done."""

    def __init__(self, config: TrainingConfig, clock: Clock) -> None:
        super().__init__()
        self.config = config
        self.clock = clock

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = learning_rate(
            self.config, self.clock.step, self.clock.plan.progress(self.clock.step)
        )


def training_loss(logs: dict[str, Any]) -> float:
    """The plain loss a token, of a task that minimises something else (smoothed, a mean of means)."""
    return logs.get("plain_loss", logs["loss"])


class Validation(keras.callbacks.Callback):
    """Adds what `scores` finds, val_loss and others, to an epoch's figures."""

    def __init__(self, scores: Callable[[], dict[str, float | None]]) -> None:
        super().__init__()
        self.scores = scores

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        logs |= self.scores()


class Recorder(keras.callbacks.Callback):
    """Writes each epoch's line in metrics.jsonl."""

    def __init__(self, run: Run, clock: Clock) -> None:
        super().__init__()
        self.run = run
        self.clock = clock

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        self.run.append(
            self.run.metrics_file,
            {
                "epoch": epoch + 1,
                "step": self.clock.step,
                "train_loss": training_loss(logs),
                **{name: value for name, value in logs.items() if name.startswith("val_")},
                "tokens_per_second": round(self.clock.tokens_per_second, 1),
                "seconds": round(self.clock.seconds, 3),
                "learning_rate": float(np.asarray(self.model.optimizer.learning_rate)),
            },
        )


class BestSoFar(keras.callbacks.Callback):
    """Knows which epoch was the best by validation loss, and ends a training that gets no better.

    Args:
      clock: tells the step.
      patience: epochs without a better one before the end; None for no such end.

    Attributes:
      best: that epoch; None before there is one.
      epochs_since: ended since then.
    """

    def __init__(self, clock: Clock, patience: int | None) -> None:
        super().__init__()
        self.clock = clock
        self.patience = patience
        self.best: Best | None = None
        self.epochs_since = 0

    @property
    def given_up(self) -> bool:
        return self.patience is not None and self.epochs_since >= self.patience

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        loss = logs["val_loss"]
        self.epochs_since += 1
        if math.isfinite(loss) and (self.best is None or loss < self.best.val_loss):
            self.epochs_since = 0
            name = checkpoint_name(self.clock.step, epoch + 1)
            self.best = Best(val_loss=loss, epoch=epoch + 1, checkpoint=name)
        if self.given_up:
            self.model.stop_training = True


class StopAtNaN(keras.callbacks.Callback):
    """Ends a training whose loss is no number any more, before such weights are saved.

    Args:
      clock: names the step.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        if not math.isfinite(loss := training_loss(logs)):
            raise TrainingDiverged(self.clock.step, loss)


class TrainingDiverged(Exception):
    """The loss became nan or infinite; arguments: step, loss."""
