"""Learning rate schedules."""

import math

from minigpt.config import TrainingConfig

# The share of training in which "wsd" decays, at its end. Hägele et al. 2024 (arXiv:2405.18392) find that
# 0.2 and a linear decay come close to longer decays; Hu et al. 2024 decay in the last tenth, exponentially.
WSD_DECAY = 0.2


def learning_rate(config: TrainingConfig, step: int, progress: float) -> float:
    """Returns the learning rate of one weight update.

    After the warm-up, `decay` falls from 1, and the learning rate is not below `min_learning_rate`.

    Sources: "inverse_sqrt" is equation 3 of Vaswani et al. 2017, with a peak of
    1 / sqrt(embed_dim · warmup_steps) in the paper. "wsd" (warm-up, stable, decay) is from Hu et al. 2024,
    "MiniCPM" (arXiv:2404.06395), section 4.

    Args:
      config: peak, floor, warm-up and schedule.
      step: number of the update, from 0.
      progress: share of training that is done, 0 to 1. "inverse_sqrt" depends on the step alone.
    """
    peak, floor = config.learning_rate, config.min_learning_rate
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    progress = min(1.0, progress)
    if config.schedule == "inverse_sqrt":
        decay = math.sqrt(max(1, config.warmup_steps) / max(step + 1, config.warmup_steps))
        return warmup * max(floor, peak * decay)
    decay = {
        "constant": 1.0,
        "linear": 1.0 - progress,
        "cosine": 0.5 * (1.0 + math.cos(math.pi * progress)),
        "wsd": min(1.0, (1.0 - progress) / WSD_DECAY),
    }[config.schedule]
    return warmup * (floor + (peak - floor) * decay)
