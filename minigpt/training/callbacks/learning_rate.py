"""Sets the learning rate."""

from typing import Any

from minigpt.config import TrainingConfig
from minigpt.training.callbacks.callback import Callback
from minigpt.training.callbacks.clock import Clock
from minigpt.training.optimizers.learning_rate import learning_rate


class LearningRate(Callback):
    """Sets the learning rate before every update, by the share of training that is done."""

    def __init__(self, config: TrainingConfig, clock: Clock) -> None:
        super().__init__()
        self.config = config
        self.clock = clock

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = learning_rate(
            self.config, self.clock.step, self.clock.limits.progress(self.clock.step)
        )
