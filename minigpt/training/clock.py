"""Counts updates and seconds, and plans the number of steps for a time limit."""

import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from minigpt.config import TrainingConfig
from minigpt.runs.checkpoints import ClockState

# Shares of the time limit or, if these are reached earlier, of the steps. The number of steps is planned
# from the first one on, again from the second one on, and checked at the others.
PLANNED_FROM, PLANNED_AGAIN = 0.05, 0.4
CHECKED_AT = (0.5, 0.65, 0.8, 0.9)
# Training that would end after LATEST of the limit is shortened; at the first checks, only if it would end
# after LATE. One that would end before EARLIEST is extended; at the checks, only before EARLY. All then end
# at TARGET.
LATE, LATEST, TARGET, EARLIEST, EARLY = 1.05, 1.01, 0.99, 0.96, 0.9
# Batches whose mean is the speed; at the last check, that of the present.
_REMEMBERED, _PRESENT = 1000, 100


class StepLimits:
    """Which weight update is the last one, and what share of training is done.

    The learning rate follows `progress`. When the limit changes, the remaining part of the schedule is
    stretched or shortened. The changes suffice to repeat the run without a clock.

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


class Clock:
    """Counts updates and seconds, and plans the number of steps for the time limit.

    "Overhead" is the time of an epoch that is not spent on updates: validation, samples, checkpoints.
    In the first epoch of a process it includes compilation, and says nothing about later epochs.
    The seconds of training are those of a `with` statement.

    Args:
      limits: the number of updates; changed when the time limit requires it.
      tokens_per_step: tokens of one update, on average.

    Attributes:
      batches: batches that are done.
      timed: batches of this process that were timed, and their seconds without overhead. The first batch of
        an epoch, which may include compilation, is not timed.
      is_planned: whether the number of updates is known. With a time limit, it is at first only the most.
      epoch_step: the number of updates before this epoch.
    """

    def __init__(self, config: TrainingConfig, limits: StepLimits, tokens_per_step: float) -> None:
        self.config = config
        self.limits = limits
        self.tokens_per_step = tokens_per_step
        # A run that is repeated with recorded limits should make the same updates on a faster machine.
        self._may_extend = not config.step_limits
        self.batches = self.epoch_step = 0
        self._seconds_before = 0.0
        self._start: float | None = None
        self._stop: float | None = None
        self._batch_end = 0.0
        self._is_first_batch = True
        self.timed = self._timed_before = (0, 0.0)
        # Seconds of the last batches.
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)
        # Epochs that have begun in this process, and the overhead of this one and of the one before.
        self._epochs = 0
        self._overhead = self._overhead_of_epoch = self._first_overhead = 0.0
        self.is_planned = not config.max_minutes or bool(limits.changes)
        self._checked_at = 0.0

    @property
    def state(self) -> ClockState:
        """What a checkpoint holds."""
        steps = self.config.updates_per_epoch
        return ClockState(
            batches=self.batches,
            seconds=self.seconds,
            epoch_step=self.epoch_step,
            beside_a_step=self._overhead_of_epoch / steps,
        )

    def restore(self, state: ClockState) -> None:
        """Restores the counts. The limits depend on the settings too: see `TrainingLoop.restore`."""
        self.batches, self._seconds_before = state.batches, state.seconds
        self._overhead_of_epoch = state.beside_a_step * self.config.updates_per_epoch

    @property
    def step(self) -> int:
        """Weight updates that are done."""
        return self.batches // self.config.accumulate_steps

    @property
    def is_update(self) -> bool:
        """Whether the last batch completed an update."""
        return self.batches % self.config.accumulate_steps == 0

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
        return 0.0 if self._start is None else (self._stop or time.perf_counter()) - self._start

    @property
    def tokens_per_second(self) -> float | None:
        """Speed of the updates of this epoch in this process; None before one was timed."""
        return self.speed_since(self._timed_before)

    def speed_since(self, timed: tuple[int, float]) -> float | None:
        """Returns the tokens per second since `timed` had this value; None if no batch was timed since."""
        batches, seconds = self.timed[0] - timed[0], self.timed[1] - timed[1]
        tokens = batches * self.tokens_per_step / self.config.accumulate_steps
        return tokens / seconds if seconds > 0 else None

    def seconds_left(self) -> float:
        """Estimates the remaining time: updates, validation, samples and checkpoints."""
        left = self._seconds_of(self.end - self.step, self._seconds_per_batch()) + self._to_compile
        if self.config.max_minutes:
            until_limit = TARGET * 60 * self.config.max_minutes - self.seconds
            # A plan that was shortened ends at the limit, whatever the speed of the last updates.
            is_shortened = self.end < self.limits.total_steps
            left = until_limit if is_shortened else min(left, until_limit)
        return max(0.0, left)

    def __enter__(self) -> None:
        self._start = self._batch_end = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._stop = time.perf_counter()

    @contextmanager
    def overhead(self) -> Iterator[None]:
        """Counts the time of a block as overhead instead of the next batch's time."""
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        self._overhead += seconds
        self._batch_end += seconds

    def begin_epoch(self) -> None:
        """Ends the measurement of an epoch, and begins that of the next one."""
        self._is_first_batch, self._timed_before = True, self.timed
        if self._epochs:
            self.epoch_step = self.step
            overhead = self._overhead + time.perf_counter() - self._batch_end
            # The first epoch of a process compiles validation and samples.
            self._overhead_of_epoch = overhead if self._epochs > 1 else self._overhead_of_epoch
            self._overhead = self._first_overhead = 0.0
        self._epochs += 1

    def count_batch(self) -> None:
        """Counts a batch, and adjusts the number of updates to the time limit."""
        self.batches += 1
        now = time.perf_counter()
        if not self._is_first_batch:
            seconds = now - self._batch_end
            self.timed = (self.timed[0] + 1, self.timed[1] + seconds)
            self._recent.append(seconds)
        elif self._epochs == 1:
            # The first validation and the first samples, which are compiled, take about as long as the
            # first step (0.4 times with XLA and 1.5 without were measured).
            self._first_overhead = now - self._batch_end
        self._is_first_batch, self._batch_end = False, now
        if self.is_update and self.config.max_minutes and self.step < self.end:
            self._adjust_to(60 * self.config.max_minutes)

    def _adjust_to(self, limit: float) -> None:
        """Changes the number of updates so that training ends at the limit, in seconds."""
        seconds, step, end = self.seconds, self.step, self.end
        if seconds >= LATEST * limit:
            self.limits.change(step, step)
            return
        done = max(seconds / limit, step / end)
        shares = (PLANNED_FROM, PLANNED_AGAIN, *CHECKED_AT)
        at = max((share for share in shares if share <= done), default=0.0)
        if at <= self._checked_at or len(self._recent) < 10:
            return
        # The last part is short: only the present speed counts for it.
        is_last = at == CHECKED_AT[-1]
        per_batch = self._seconds_per_batch(_PRESENT if is_last else _REMEMBERED)
        until = TARGET * limit - seconds - self._to_compile
        seconds_of_rest = self._seconds_of(end - step, per_batch)
        finish = seconds + self._to_compile + seconds_of_rest
        may_extend = self._may_extend and end < self.limits.total_steps
        is_plan = at < CHECKED_AT[0]
        latest = LATEST if is_plan or is_last else LATE
        earliest = EARLIEST if is_plan else EARLY
        if finish > latest * limit or (may_extend and finish < earliest * limit):
            more = int(max(0.0, until) * (end - step) / seconds_of_rest)
            end = min(self.limits.total_steps, step + more)
            # No epoch of a few steps at the end, if leaving it out costs at most 1/40 of the steps.
            rest = (end - self.epoch_step) % self.config.updates_per_epoch
            self.limits.change(step, end - rest if rest <= min(end // 40, end - step) else end)
        self.is_planned, self._checked_at = True, at

    @property
    def _to_compile(self) -> float:
        """Seconds that the first validation and the first samples of this process will take."""
        return max(0.0, self._first_overhead - self._overhead)

    def _seconds_of(self, steps: int, per_batch: float) -> float:
        """Returns the seconds of the next updates, and of what is beside them."""
        beside = steps / self.config.updates_per_epoch * self._overhead_of_epoch
        return steps * per_batch * self.config.accumulate_steps + beside

    def _seconds_per_batch(self, batches: int = _REMEMBERED) -> float:
        """Returns the mean of the last batches."""
        recent = list(self._recent)[-batches:]
        if not recent:
            return 0.0
        # A batch of a new shape includes compilation, and is left out.
        longest = 8 * statistics.median(recent)
        return statistics.fmean(seconds for seconds in recent if seconds <= longest)
