"""A training that is asked to stop."""

import signal
from types import FrameType
from typing import Any

import keras
from rich.console import Console

from minigpt.interrupts import stopping_signals
from minigpt.training.callbacks.checkpointing import Checkpointing


class Interrupt(keras.callbacks.Callback):
    """Turns the first Ctrl-C, SIGTERM or SIGHUP into a stop after the running weight update.

    After the last one of an epoch, that is when it has been validated and recorded.
    A second one ends the program at once, as it always does.

    Args:
      checkpointing: knows when the state can be saved.
      console: says what goes on. Where the terminal has gone (SIGHUP) it says nothing any more.
    """

    def __init__(self, checkpointing: Checkpointing, console: Console) -> None:
        super().__init__()
        self.checkpointing = checkpointing
        self.console = console
        self.requested = False
        self._previous: dict[int, Any] = {}

    def take(self) -> None:
        """From now on the signals come here."""
        try:
            for number in stopping_signals():
                self._previous[number] = signal.signal(number, self._request)
        except ValueError:
            pass  # Not the main thread: signals are not ours to take.

    def restore(self) -> None:
        """From now on they go where they went before."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.requested and self.checkpointing.is_within_epoch:
            raise TrainingInterrupted

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.requested:
            raise TrainingInterrupted

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self.restore()
        if number == signal.SIGHUP:
            # Writing to a terminal that is gone would end the training before it is saved.
            self.console.quiet = True
        at_end = self.checkpointing.is_at_epoch_end
        when = "when this epoch is validated" if at_end else "after this step"
        self.console.print(f"Stopping {when}; Ctrl-C again ends at once.")


class TrainingInterrupted(Exception):
    """Leaves `fit` between two weight updates, or behind the end of an epoch."""
