"""Learning rate schedules."""

import math

from minigpt.config import TrainingConfig


def learning_rate(config: TrainingConfig, step: int, progress: float) -> float:
    """Returns the learning rate of one weight update.

    Args:
      config: peak, warm-up and schedule.
      step: number of the update, from 0.
      progress: share of training that is done, 0 to 1.
    """
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    progress = min(1.0, progress)
    decay = {
        "constant": 1.0,
        "linear": 1.0 - progress,
        "cosine": 0.5 * (1.0 + math.cos(math.pi * progress)),
    }[config.schedule]
    return config.learning_rate * warmup * decay
