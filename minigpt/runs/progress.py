"""The progress of training: its whole state except arrays, as a checkpoint's manifest records it.

The names are the keys of the manifest and part of its format.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class _Record(BaseModel):
    # A manifest may come from someone else: unknown keys and wrong types are rejected.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Best(_Record):
    """The best epoch by validation loss.

    Attributes:
      val_loss: its loss, nats per token.
      epoch: its number, from 1.
      checkpoint: the name of the checkpoint at its end.
    """

    val_loss: float
    epoch: Annotated[int, Field(ge=1)]
    checkpoint: Annotated[str, Field(pattern=r"^step-\d{8,}-epoch-\d+$")]


class ClockState(_Record):
    """The state of the callback `Clock`.

    Attributes:
      batches: batches trained on.
      seconds: since training began, in all processes.
      epoch_step: the number of weight updates before this epoch.
      beside_a_step: seconds per weight update spent on everything else, in the last epoch.
    """

    batches: Count = 0
    seconds: Seconds = 0.0
    epoch_step: Count = 0
    beside_a_step: Seconds = 0.0


class TrainingProgress(_Record):
    """The state of training between two weight updates.

    Attributes:
      step: weight updates made.
      epoch: epochs that have ended and are validated and recorded.
      batch: batches of the next epoch that are done.
      clock: the state of `Clock`.
      given_plan: the step limits in the user's configuration.
      plan: the step limits in effect, after changes by the time limit.
      best: the best epoch so far; None before the first one ends.
      epochs_since_best: epochs that have ended since the best one.
      config: every setting, as `config.config_record` returns it.
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
