"""How far a training is: all of its state that is no array, as a checkpoint records it."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class _Part(BaseModel):
    # A record may come from a stranger: what is not as it was written is no record.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Best(_Part):
    """The best epoch by validation loss.

    Attributes:
      val_loss: its loss, nats per token.
      epoch: its number, from 1.
      checkpoint: the name of the checkpoint at its end.
    """

    val_loss: float
    epoch: Annotated[int, Field(ge=1)]
    checkpoint: Annotated[str, Field(pattern=r"^step-\d{8,}-epoch-\d+$")]


class ClockState(_Part):
    """What `training.callbacks.Clock` has counted; see its attributes."""

    batches: Count = 0
    seconds: Seconds = 0.0
    epoch_step: Count = 0
    beside_a_step: Seconds = 0.0


class TrainingProgress(_Part):
    """Where a training is, between two weight updates.

    Attributes:
      step: weight updates made.
      epoch: epochs that have ended, validated and recorded.
      batch: batches of the next one that are done.
      clock: what was counted.
      given_plan: `training.step_limits` as the user gave it.
      plan: what the clock has made of it.
      best: the best epoch so far; None before there is one.
      epochs_since_best: ended since then.
      config: every setting, with the format number; see `config.record`.
    """

    step: Count
    epoch: Count
    batch: Count
    clock: ClockState
    given_plan: list[list[int]]
    plan: list[list[int]]
    best: Best | None
    epochs_since_best: Count
    config: dict[str, Any]
