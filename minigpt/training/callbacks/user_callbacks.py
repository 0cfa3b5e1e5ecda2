"""Runs the callbacks that the caller of `train` has passed."""

from collections.abc import Sequence
from typing import Any

import keras

from minigpt.training.callbacks.callback import Callback, Stage
from minigpt.training.callbacks.checkpointing import Checkpointing


class UserCallbacks(Callback):
    """Passes the events of training to any Keras callbacks.

    They see a single `fit`, even if a resumed epoch needs two calls of it: one begin and one end of
    training, all epochs and steps, and batches numbered within their epoch. They are called after the
    validation, so the logs of an epoch hold `val_loss` and the other scores, and before the checkpoint.
    Scores that do not exist (None) are left out. Their own state is not saved in checkpoints.

    Args:
      callbacks: any Keras callbacks.
      epochs: total number of epochs.
      checkpointing: counts epochs and batches.
    """

    stage = Stage.USER

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        epochs: int,
        checkpointing: Checkpointing,
    ) -> None:
        super().__init__()
        self.callbacks = keras.callbacks.CallbackList(list(callbacks))
        self.checkpointing = checkpointing
        steps = checkpointing.batches_per_epoch
        self.callbacks.set_params({"verbose": 0, "epochs": epochs, "steps": steps})
        self._is_open = False
        self._first_batch = 0
        self._logs: dict[str, Any] = {}

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if not self._is_open:
            self._is_open = True
            self.callbacks.set_model(self.model)
            self.callbacks.on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._first_batch = self.checkpointing.batch
        self.callbacks.on_epoch_begin(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.callbacks.on_train_batch_begin(self._first_batch + batch, logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.callbacks.on_train_batch_end(self._first_batch + batch, dict(logs or {}))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._logs = {name: value for name, value in (logs or {}).items() if value is not None}
        self.callbacks.on_epoch_end(epoch, self._logs)

    def close(self) -> None:
        """Ends training for the callbacks: files are closed."""
        if self._is_open:
            self._is_open = False
            self.callbacks.on_train_end(self._logs)
