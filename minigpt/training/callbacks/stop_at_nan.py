"""Stops training that has diverged."""

import math
from typing import Any

from minigpt.training.callbacks.callback import Callback, TrainingDiverged, training_loss
from minigpt.training.callbacks.clock import Clock


class StopAtNaN(Callback):
    """Stops training if the loss is nan or infinite, before the weights are saved.

    Args:
      clock: counts the steps.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        if not math.isfinite(loss := training_loss(logs)):
            raise TrainingDiverged(self.clock.step, loss)
