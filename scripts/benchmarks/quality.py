"""Time to quality: evaluation during training, and the time at which a loss was reached."""

import math
import time
from collections.abc import Sequence

from benchmarks.held_out import HeldOut, Nats
from benchmarks.measuring import Context, Outcome

# The time between two evaluations, as a share of the time of training so far. The time at which a loss was
# reached is interpolated, so its error is well below this share.
_LATER = 0.04
# A quick evaluation uses one row of this many ...
_ONE_OF = 16
# ... and a full one follows if its score is at most this share above the goal. The first full one shows
# how much the quick ones differ from it; the same rows differ by about the same share later.
_FIRST, _NEAR = 0.2, 0.04

# Seconds, updates and score of a full evaluation.
Point = tuple[float, int, float]


class TimedEvaluation:
    """Evaluates a model during training. The time of an evaluation is not counted.

    Args:
      context: gives the seconds since the start of the process.
      held_out: the text.
      nats: computes the losses of a batch.
      goals: scores; evaluations are frequent until all are reached, and rare otherwise.
      ends: seconds of training at which the model is evaluated; the last one ends the training.
      last_step: the update that ends the training.
      stops_at_goals: whether the training ends when all goals are reached.
      evaluation_seconds: seconds that were spent on evaluation before.

    Attributes:
      points: all full evaluations.
      reached_ends: those at `ends` or `last_step`.
      evaluation_seconds: seconds that were spent on evaluation.
      is_over: whether the training should end.
      overlapping: the last score in overlapping windows; None if there are none.
    """

    def __init__(
        self,
        context: Context,
        held_out: HeldOut,
        nats: Nats,
        *,
        goals: Sequence[float] = (),
        ends: Sequence[float] = (),
        last_step: int | None = None,
        stops_at_goals: bool = False,
        evaluation_seconds: float = 0.0,
    ) -> None:
        self.context, self.held_out, self.nats = context, held_out, nats
        self.goals, self.ends = sorted(goals, reverse=True), sorted(ends)
        self.last_step = last_step
        self.limit = self.ends[-1] if ends else math.inf
        self.stops_at_goals = stops_at_goals
        self.evaluation_seconds = evaluation_seconds
        self.is_over = False
        self.overlapping: float | None = None
        self.points: list[Point] = []
        self.reached_ends: list[Point] = []
        self._next = 0.0
        # Full divided by quick score, once it is known.
        self._scale: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds from the start of the process, without evaluations."""
        return self.context.seconds() - self.evaluation_seconds

    @property
    def share(self) -> float:
        """The share of the time limit that is over, 0 to 1; for schedules."""
        return min(1.0, self.seconds / self.limit)

    def evaluate_if_due(self, step: int, is_last: bool = False) -> None:
        """Evaluates the model if it is time, and sets `is_over`.

        Args:
          step: updates that are done.
          is_last: whether the training ends with this update anyway.
        """
        seconds = self.seconds
        began = time.perf_counter()
        is_last |= self.last_step is not None and step >= self.last_step
        due = 0
        while due < len(self.ends) and seconds >= self.ends[due]:
            due += 1
        if is_last or due:
            self._evaluate(seconds, step)
            self.reached_ends += [self.points[-1]] * max(1, due)
            del self.ends[:due]
            is_last |= bool(due) and not self.ends
        elif self.goals and seconds >= self._next:
            self._next = seconds * (1 + _LATER)
            quick = self.held_out.score(self.nats, _ONE_OF)
            near = _FIRST if self._scale is None else _NEAR
            if quick * (self._scale or 1.0) <= self.goals[0] * (1 + near):
                self._evaluate(seconds, step)
                self._scale = self.points[-1][2] / quick
        self.is_over = is_last or (self.stops_at_goals and not self.goals)
        if self.is_over and self.held_out.overlapping is not None:
            self.overlapping = self.held_out.overlapping.score(self.nats)
        self.evaluation_seconds += time.perf_counter() - began

    def _evaluate(self, seconds: float, step: int) -> None:
        score = self.held_out.score(self.nats)
        self.points.append((seconds, step, score))
        while self.goals and score <= self.goals[0]:
            del self.goals[0]

    def outcome(self) -> Outcome:
        """Returns the last seconds as the value, and the evaluations."""
        return {
            "value": self.points[-1][0],
            "points": self.points,
            "ends": self.reached_ends,
            "evaluation_seconds": self.evaluation_seconds,
            "overlapping": self.overlapping,
        }


def crossing(points: Sequence[Point], goal: float) -> float | None:
    """Returns the seconds at which the score fell to a goal; None if it did not.

    Interpolates between the first evaluation at or below the goal and the one before it.

    Args:
      points: evaluations in order.
      goal: a score.
    """
    before: Point | None = None
    for point in points:
        seconds, _, score = point
        if score <= goal:
            if before is None:
                return seconds
            above = before[2]
            return before[0] + (seconds - before[0]) * (above - goal) / (above - score)
        before = point
    return None


def cosine(step: int, share: float, highest: float, lowest: float, warmup: int) -> float:
    """Returns a learning rate: linear warm-up, then a cosine that reaches the minimum at share 1."""
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    return lowest + 0.5 * (1 + math.cos(math.pi * share)) * (highest - lowest)
