"""The number of weight updates, which a time limit may change during training."""

from collections.abc import Sequence


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
