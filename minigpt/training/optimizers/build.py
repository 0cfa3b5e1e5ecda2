"""The learning rate and the optimizer of a configuration."""

import math
from collections.abc import Callable
from typing import Any

import keras

from minigpt.config import TrainingConfig
from minigpt.training.optimizers.updates import SGD, Adam, AdamW, Muon

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


def build_optimizer(
    config: TrainingConfig,
    model: keras.Model,
    *,
    muon: Callable[..., Muon] = Muon,
    compiles_updates: bool = False,
) -> keras.optimizers.Optimizer:
    """Returns the optimizer of a configuration, built for `model`.

    Its learning rate is only the peak; the callback `LearningRate` sets it before every update.

    Args:
      config: the settings.
      model: built.
      muon: builds the optimizer `muon`.
      compiles_updates: whether an update is compiled with XLA separately, and not with the whole step.
    """
    shared: dict[str, Any] = {
        "learning_rate": config.learning_rate,
        "weight_decay": config.weight_decay,
        "global_clipnorm": config.clip_norm,
        "gradient_accumulation_steps": (
            config.accumulate_steps if config.accumulate_steps > 1 else None
        ),
    }
    optimizer: keras.optimizers.Optimizer
    if config.optimizer == "sgd":
        optimizer = SGD(momentum=0.9, nesterov=True, **shared)
    elif config.optimizer == "muon":
        # Muon updates the blocks' matrices, AdamW the tables and the head (Jordan et al. 2024).
        optimizer = muon(
            adam_beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
            adam_weight_decay=config.weight_decay,
            exclude_layers=["embedding", "head", "convolution"],
            **shared,
        )
    elif config.optimizer == "adamw":
        optimizer = AdamW(beta_2=config.adam_beta_2, epsilon=config.adam_epsilon, **shared)
    else:
        optimizer = Adam(beta_2=config.adam_beta_2, epsilon=config.adam_epsilon, **shared)
    # No decay of gains and biases, as in GPT-2 (Loshchilov & Hutter 2019 decay all weights).
    optimizer.exclude_from_weight_decay(
        var_list=[v for v in model.trainable_variables if len(v.shape) < 2]
    )
    optimizer.compiles_updates = compiles_updates
    if model.dtype_policy.name == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")
    optimizer.build(model.trainable_variables)
    return optimizer
