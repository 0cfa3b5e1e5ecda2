"""The optimizer of a configuration."""

from collections.abc import Callable
from typing import Any

import keras

from minigpt.config import TrainingConfig
from minigpt.training.optimizers.local_updates import SGD, Adam, AdamW
from minigpt.training.optimizers.muon import Muon


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
            exclude_layers=["embedding", "head"],
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
