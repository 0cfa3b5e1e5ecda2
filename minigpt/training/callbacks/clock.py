"""Counts updates and seconds, enforces the time limit, and sets the learning rate."""

import math
import statistics
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from minigpt.config import TrainingConfig
from minigpt.training.callbacks.callback import Callback, Stage
from minigpt.training.optimizers.build import learning_rate

# With a time limit, the number of steps is planned once, after this share of the limit and one epoch: then
# the time of validation and samples is known. At the latest, it is planned after the second share.
PLANNED_FROM, PLANNED_AT = 0.05, 0.2
# Shares of the limit at which the plan is checked. It changes only if the speed has changed by CHANGED; at
# the last one, it is made to fit exactly.
CHECKED_AT = (0.35, 0.5, 0.65, 0.8, 0.9)
CHANGED = 0.05
# Training that would end after LATEST of the limit is shortened. One that was shortened and would end
# before EARLIEST is extended. Both then end at TARGET.
LATEST, TARGET, EARLIEST = 1.01, 0.99, 0.96
# Batches whose mean is the speed.
_REMEMBERED, _PRESENT = 1000, 100


class StepLimits:
    """Which weight update is the last one, and what share of training is done.

    The learning rate follows `progress`. When the limit changes, the remaining part of the schedule is
    stretched or shortened; the part that is done stays as it was. The list of changes suffices to
    repeat the run without a clock.

    Args:
      total_steps: the total number of updates without any change.
      changes: pairs (step, end): from update `step` on, `end` is the total number of updates.
    """

    def __init__(self, total_steps: int, changes: Sequence[Sequence[int]] = ()) -> None:
        self.total_steps = total_steps
        self.changes = [list(change) for change in changes]

    def end(self, step: int) -> int:
        """Returns the total number of updates that was valid at update `step`."""
        return next(
            (end for start, end in reversed(self.changes) if start <= step), self.total_steps
        )

    def progress(self, step: int) -> float:
        """Returns the share of training that is done after `step` updates, 0 to 1."""
        progress, previous, end = 0.0, 0, self.total_steps
        for start, new_end in [*self.changes, [step, 0]]:
            start = min(start, step)
            progress += (1 - progress) * (start - previous) / max(1, end - previous)
            previous, end = start, new_end
            if start == step:
                break
        return min(1.0, progress)

    def change(self, step: int, end: int) -> None:
        """Makes `end` the total number of updates from update `step` on."""
        self.changes = [change for change in self.changes if change[0] < step]
        self.changes.append([step, end])


class Clock(Callback):
    """Counts updates and seconds, and adjusts the number of steps to the time limit.

    "Overhead" is the time of an epoch that is not spent on updates: validation, samples, checkpoints.

    Args:
      config: the settings.
      limits: the number of updates; changed when the time limit requires it.
      tokens_per_step: tokens of one update, on average.

    Attributes:
      batches: batches that are done.
      timed: batches of this process that were timed, and their seconds without overhead. The first batch of
        an epoch, which may include compilation, is not timed.
      limits: the number of updates.
      is_planned: whether the number of updates is known. With a time limit, it is at first only the most.
    """

    stage = Stage.COUNT

    def __init__(self, config: TrainingConfig, limits: StepLimits, tokens_per_step: float) -> None:
        super().__init__()
        self.config = config
        self.limits = limits
        self.tokens_per_step = tokens_per_step
        # A run that is repeated with recorded limits should make the same updates on a faster machine.
        self._may_extend = not config.step_limits
        self.batches = 0
        self._seconds_before = 0.0
        self._start = self._batch_end = time.perf_counter()
        self._stop: float | None = None
        self._has_begun = False
        self._is_first_batch = True
        self.timed = self._timed_before = (0, 0.0)
        self._epoch_step = 0
        # Seconds of the last batches.
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)
        # The overhead of this epoch, and the overhead per update of the last complete epoch.
        self._overhead = self._overhead_per_step = 0.0
        self.is_planned = not config.max_minutes or bool(limits.changes)
        self._checked_at = 0.0
        self._epochs_ended = 0
        self._resumed = False

    def state_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "clock": {
                "batches": self.batches,
                "seconds": self.seconds,
                "epoch_step": self._epoch_step,
                "beside_a_step": self._overhead_per_step,
            },
            "given_plan": self.config.step_limits,
            "plan": self.limits.changes,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the counts. The limits depend on the settings too: see `TrainingLoop.restore`."""
        clock = state["clock"]
        self.batches = clock["batches"]
        self._seconds_before = clock["seconds"]
        self._epoch_step = clock["epoch_step"]
        self._overhead_per_step = clock["beside_a_step"]
        self._resumed = True

    @property
    def step(self) -> int:
        """Weight updates that are done."""
        return self.batches // self.config.accumulate_steps

    @property
    def end(self) -> int:
        """Total number of weight updates, as currently planned."""
        return self.limits.end(self.step)

    @property
    def seconds(self) -> float:
        """Seconds of training, including those of earlier processes."""
        return self._seconds_before + self.process_seconds

    @property
    def process_seconds(self) -> float:
        """Seconds of training in this process."""
        return (self._stop or time.perf_counter()) - self._start if self._has_begun else 0.0

    @property
    def tokens_per_second(self) -> float | None:
        """Speed of the updates of this epoch in this process; None before one was timed."""
        return self.speed_since(self._timed_before)

    def speed_since(self, timed: tuple[int, float]) -> float | None:
        """Returns the tokens per second since `timed` had this value; None if no batch was timed since."""
        batches, seconds = self.timed[0] - timed[0], self.timed[1] - timed[1]
        tokens = batches * self.tokens_per_step / self.config.accumulate_steps
        return tokens / seconds if seconds > 0 else None

    @property
    def epochs_left(self) -> int:
        """Epochs that have not ended, as currently planned."""
        return math.ceil((self.end - self._epoch_step) / self.config.updates_per_epoch)

    def seconds_left(self) -> float:
        """Estimates the remaining time: updates, validation, samples and checkpoints."""
        per_step = self._seconds_per_batch() * self.config.accumulate_steps
        per_epoch = self._overhead_per_step * self.config.updates_per_epoch
        left = (self.end - self.step) * per_step + max(
            0.0, self.epochs_left * per_epoch - self._overhead
        )
        if self.config.max_minutes:
            until_limit = TARGET * 60 * self.config.max_minutes - self.seconds
            # A plan that was shortened ends at the limit, whatever the speed of the last updates.
            is_shortened = self.end < self.limits.total_steps
            left = until_limit if is_shortened else min(left, until_limit)
        return max(0.0, left)

    def stop(self) -> None:
        """Stops counting seconds."""
        self._stop = time.perf_counter()

    def add_overhead(self, seconds: float) -> None:
        """Counts seconds since the end of the last batch as overhead instead of a batch's time."""
        self._overhead += seconds
        self._batch_end += seconds

    def on_train_begin(self, logs: Any = None) -> None:
        # Only once: training that is resumed within an epoch calls `fit` twice.
        if not self._has_begun:
            self._has_begun = True
            self._start = time.perf_counter()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._is_first_batch, self._timed_before = True, self.timed
        if self._resumed:
            # The epoch may be partly done, and this process has measured no overhead yet.
            self._resumed = False
            return
        if epoch:
            self._overhead += time.perf_counter() - self._batch_end
            self._overhead_per_step = self._overhead / max(1, self.step - self._epoch_step)
            self._epochs_ended += 1
        self._epoch_step, self._overhead = self.step, 0.0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches += 1
        now = time.perf_counter()
        if not self._is_first_batch:
            seconds = now - self._batch_end
            self.timed = (self.timed[0] + 1, self.timed[1] + seconds)
            self._recent.append(seconds)
        self._is_first_batch, self._batch_end = False, now
        if self.batches % self.config.accumulate_steps == 0:
            self._adjust_to_time_limit()
            if self.step >= self.end:
                self.model.stop_training = True

    def _adjust_to_time_limit(self) -> None:
        limit, seconds = 60 * (self.config.max_minutes or 0), self.seconds
        step, end = self.step, self.end
        if not limit or step >= end:
            return
        if seconds >= LATEST * limit:
            self.limits.change(step, step)
            return
        share = seconds / limit
        checked_at = max((at for at in CHECKED_AT if share >= at), default=0.0)
        if len(self._recent) < 10:
            return
        if self.is_planned:
            is_due = checked_at > self._checked_at
        else:
            is_due = share >= (PLANNED_FROM if self._epochs_ended else PLANNED_AT)
            if not is_due and self._epochs_ended:
                # All steps take a fraction of the limit: no plan is needed.
                self.is_planned = seconds + self.seconds_left() < 0.5 * limit
        if not is_due:
            return
        is_last = checked_at == CHECKED_AT[-1]
        exactly = not self.is_planned or is_last
        self.is_planned, self._checked_at = True, checked_at
        # The last part is short: only the present speed counts for it.
        per_batch = self._seconds_per_batch(_PRESENT if is_last else _REMEMBERED)
        per_step = per_batch * self.config.accumulate_steps
        per_step += self._overhead_per_step
        finish = seconds + (end - step) * per_step
        late = finish > (LATEST if exactly else 1 + CHANGED) * limit
        early = finish < (EARLIEST if exactly else 1 - CHANGED) * limit
        if late or (early and end < self.limits.total_steps and self._may_extend):
            more = max(0.0, TARGET * limit - seconds) / per_step
            self.limits.change(step, min(self.limits.total_steps, step + int(more)))

    def _seconds_per_batch(self, batches: int = _REMEMBERED) -> float:
        """Returns the mean of the last batches."""
        recent = list(self._recent)[-batches:]
        if not recent:
            return 0.0
        # A batch of a new shape includes compilation, and is left out.
        longest = 8 * statistics.median(recent)
        return statistics.fmean(seconds for seconds in recent if seconds <= longest)


class LearningRate(Callback):
    """Sets the learning rate before every update, by the share of training that is done."""

    stage = Stage.COUNT

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        clock = self.clock
        progress = clock.limits.progress(clock.step)
        self.model.optimizer.learning_rate = learning_rate(clock.config, clock.step, progress)
