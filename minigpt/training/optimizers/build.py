"""How the weights follow their gradients."""

import math
from typing import Any

import keras

from minigpt.config import TrainingConfig
from minigpt.training.optimizers.muon import Muon


def build_optimizer(config: TrainingConfig, model: keras.Model) -> keras.optimizers.Optimizer:
    """The optimizer of a configuration, built for `model`; its learning rate is set step by step."""
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
        optimizer = keras.optimizers.SGD(momentum=0.9, nesterov=True, **shared)
    elif config.optimizer == "muon":
        # Muon is for the blocks' matrices; tables and the head are AdamW's (Jordan et al. 2024).
        optimizer = Muon(
            adam_beta_2=config.adam_beta_2,
            adam_weight_decay=config.weight_decay,
            exclude_layers=["embedding", "head"],
            **shared,
        )
    elif config.optimizer == "adamw":
        optimizer = keras.optimizers.AdamW(beta_2=config.adam_beta_2, **shared)
    else:
        optimizer = keras.optimizers.Adam(beta_2=config.adam_beta_2, **shared)
    # Gains and biases have no reason to be small (Loshchilov & Hutter 2019; GPT-2's practice).
    optimizer.exclude_from_weight_decay(
        var_list=[v for v in model.trainable_variables if len(v.shape) < 2]
    )
    optimizer.build(model.trainable_variables)
    return optimizer


def learning_rate(config: TrainingConfig, step: int, progress: float) -> float:
    """The learning rate of one weight update.

    Args:
      config: peak, warm-up and schedule.
      step: number of the update, from 0.
      progress: share of the training that is over, 0 to 1.
    """
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    progress = min(1.0, progress)
    fall = {
        "constant": 1.0,
        "linear": 1.0 - progress,
        "cosine": 0.5 * (1.0 + math.cos(math.pi * progress)),
    }[config.schedule]
    return config.learning_rate * warmup * fall
