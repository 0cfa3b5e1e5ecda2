"""The batches and weight updates that suit a text."""

import math
from dataclasses import dataclass
from typing import TypeVar

from minigpt.config.section import Section
from minigpt.config.training import TrainingConfig

Value = TypeVar("Value")

# Passes over the text after which the held-out loss was lowest, with the dropout rate chosen for it.
PASSES = 12
# A time limit shortens training, but never extends it beyond its plan. So the plan is for a faster machine.
PLANNED_SPEED = 2


def set_or(section: Section, key: str, chosen: Value) -> Value:
    """Returns the user's value of a setting, or the chosen one if the user has not set it."""
    value: Value = getattr(section, key) if key in section.model_fields_set else chosen
    return value


def filled(
    tokens: float, length: int, batch_size: int, fixed_length: bool, fixed_batch: bool
) -> tuple[int, int]:
    """Halves the batch, then the length of its sequences, until a text fills a batch."""
    # What `batches.check_fills_batch` requires.
    while (batch_size + 1) * length - 1 > tokens:
        if batch_size > 1 and not fixed_batch:
            batch_size //= 2
        elif length > 3 and not fixed_length:
            length //= 2
        else:
            break
    return length, batch_size


@dataclass(frozen=True)
class Steps:
    """Weight updates in an epoch and in all, and how often the text is really read."""

    epochs: int
    per_epoch: int
    total: int
    passes: float


def steps_for(
    training: TrainingConfig,
    epochs: int,
    tokens: float,
    tokens_per_step: int,
    tokens_in_time: float,
) -> Steps:
    """Chooses the number of weight updates.

    Args:
      training: the settings of the user.
      epochs: their number if the user has not set it.
      tokens: tokens of the training text.
      tokens_per_step: tokens of a weight update.
      tokens_in_time: tokens that training can read within the time limit.
    """
    epochs = set_or(training, "epochs", epochs)
    planned = min(PASSES * tokens, PLANNED_SPEED * tokens_in_time)
    # At least ten updates.
    per_epoch = max(math.ceil(10 / epochs), round(planned / (tokens_per_step * epochs)))
    if "steps_per_epoch" in training.model_fields_set:
        one_pass = max(1, int(tokens / tokens_per_step))
        per_epoch = training.steps_per_epoch or one_pass
    total = epochs * per_epoch
    trained: float = total * tokens_per_step
    if training.max_minutes or "max_minutes" not in training.model_fields_set:
        trained = min(trained, tokens_in_time)
    return Steps(epochs, per_epoch, total, trained / max(1.0, tokens))


def warmup(steps: int, most: int) -> int:
    """Returns the updates of the warm-up: a twentieth of all, at least one of ten."""
    return min(most, max(1, steps // 20)) if steps >= 10 else 0
