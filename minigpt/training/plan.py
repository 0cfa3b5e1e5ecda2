"""Which weight update will be the last, and how far along each one is."""

from collections.abc import Sequence


class Plan:
    """A number of updates that a time limit may change on the way.

    The learning rate follows the share of the plan that is done. Where the end moves, the rest of the
    way is stretched or shortened; what was done stays done. Whoever knows the changes can make the same
    run again, without a clock.

    Args:
      total_steps: updates without any change.
      changes: (step, end): from `step` on, update number `end` is the last.
    """

    def __init__(self, total_steps: int, changes: Sequence[Sequence[int]] = ()) -> None:
        self.total_steps = total_steps
        self.changes = [list(change) for change in changes]

    def end(self, step: int) -> int:
        """Updates in all, as seen from update `step`."""
        return next(
            (end for start, end in reversed(self.changes) if start <= step), self.total_steps
        )

    def progress(self, step: int) -> float:
        """Share of the training that is over when `step` updates are made: 0 to 1."""
        progress, began, end = 0.0, 0, self.total_steps
        for start, new_end in [*self.changes, [step, 0]]:
            start = min(start, step)
            progress += (1 - progress) * (start - began) / max(1, end - began)
            began, end = start, new_end
            if start == step:
                break
        return min(1.0, progress)

    def change(self, step: int, end: int) -> None:
        """From update `step` on, number `end` is the last."""
        self.changes = [change for change in self.changes if change[0] < step]
        self.changes.append([step, end])
