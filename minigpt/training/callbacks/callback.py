"""The base class of the callbacks, their order, and functions that several of them use."""

from enum import IntEnum, auto
from typing import Any

import keras


class Stage(IntEnum):
    """When a callback is called after a batch or an epoch."""

    COUNT = auto()  # Steps and seconds, which the others read.
    SCORE = auto()  # Adds the scores on the held-out text to the logs.
    SHOW = auto()  # Displays and records them.
    JUDGE = auto()  # Ends training, or notes the best epoch.
    USER = auto()  # The user's callbacks, which may change weights.
    KEEP = auto()  # Files that must exist before the checkpoint is written.
    SAVE = auto()  # The checkpoint.
    REPORT = auto()  # Files and messages about the state in the checkpoint.
    END = auto()  # Ctrl-C, after everything is saved.


class Callback(keras.callbacks.Callback):
    """A Keras callback that is called at a declared stage.

    `Checkpointing.saved` lists the callbacks whose state is saved. Their dictionaries together
    are the record `TrainingProgress`, so their keys must be distinct.

    Attributes:
      stage: when it is called.
    """

    stage = Stage.SHOW

    def state_dict(self) -> dict[str, Any]:
        """Returns what another process needs to continue, as JSON values; {} if there is no state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state, before training.

        Args:
          state: the dictionaries of all callbacks, merged.
        """


def training_loss(logs: dict[str, Any]) -> float:
    """Returns the loss per token without label smoothing."""
    return logs.get("plain_loss", logs["loss"])
