"""Stops training that has diverged."""

import math
from typing import Any

from minigpt.config import TrainingConfig
from minigpt.runs.run import Run
from minigpt.training.callbacks.callback import Callback, training_loss
from minigpt.training.callbacks.clock import Clock
from minigpt.training.failures import diverged


class StopAtNaN(Callback):
    """Raises a `UserError` if the loss is nan or infinite, before the weights are saved.

    Args:
      run: the run, whose last checkpoint the message names.
      config: the settings.
      clock: counts the steps.
    """

    def __init__(self, run: Run, config: TrainingConfig, clock: Clock) -> None:
        super().__init__()
        self.run = run
        self.config = config
        self.clock = clock

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        if not math.isfinite(loss := training_loss(logs)):
            raise diverged(self.run, self.config, self.clock.step, loss)
