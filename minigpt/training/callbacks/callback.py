"""The base class of the callbacks, and what several of them use."""

from typing import Any

import keras


class Callback(keras.callbacks.Callback):
    """A Keras callback whose state is saved in checkpoints.

    The dictionaries of all callbacks together are the record `runs.progress.TrainingProgress`, so their
    keys must be distinct.
    """

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
