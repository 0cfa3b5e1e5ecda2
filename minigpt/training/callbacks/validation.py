"""Scores on the held-out text."""

from collections.abc import Callable
from typing import Any

from minigpt.training.callbacks.callback import Callback


class Validation(Callback):
    """Adds the scores on the held-out text, `val_loss` and others, to the logs of every epoch.

    Args:
      scores: computes them.
    """

    def __init__(self, scores: Callable[[], dict[str, float | None]]) -> None:
        super().__init__()
        self.scores = scores

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        logs |= self.scores()
