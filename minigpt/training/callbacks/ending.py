"""Ends training: on Ctrl-C and similar signals, and when the loss is nan or infinite."""

import math
import signal
from types import FrameType
from typing import Any

from rich.console import Console

from minigpt.interrupts import stopping_signals
from minigpt.runs.run import Run
from minigpt.training.callbacks.callback import Callback, Stage, training_loss
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.callbacks.clock import Clock
from minigpt.training.console import show
from minigpt.training.failures import diverged


class Interrupt(Callback):
    """Turns the first Ctrl-C, SIGTERM or SIGHUP into a stop after the current weight update.

    If that update is the last one of an epoch, training stops after the epoch is validated and
    recorded. A second signal has its usual effect.

    Args:
      checkpointing: determines when the state can be saved.
      console: where to print. It is silenced after SIGHUP, because the terminal is gone.
      stops: whether it stops training by itself.

    Attributes:
      requested: whether a signal has arrived.
    """

    stage = Stage.END

    def __init__(self, checkpointing: Checkpointing, console: Console, stops: bool = True) -> None:
        super().__init__()
        self.checkpointing = checkpointing
        self.console = console
        self.stops = stops
        self.requested = False
        self._previous: dict[int, Any] = {}

    def install(self) -> None:
        """Starts to handle the signals."""
        try:
            for number in stopping_signals():
                self._previous[number] = signal.signal(number, self._request)
        except ValueError:
            pass  # Only the main thread may handle signals.

    def uninstall(self) -> None:
        """Restores the previous handlers."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.stops and self.requested and self.checkpointing.is_within_epoch:
            raise TrainingInterrupted

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.stops and self.requested:
            raise TrainingInterrupted

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self.uninstall()
        if number == signal.SIGHUP:
            # Writing to a terminal that is gone would end training before its state is saved.
            self.console.quiet = True
        at_end = self.checkpointing.is_at_epoch_end
        when = "after the validation of this epoch" if at_end else "after this step"
        show(self.console, f"Stopping {when}; Ctrl-C again stops immediately.")


class TrainingInterrupted(Exception):
    """Leaves `fit` between two weight updates, or after the end of an epoch."""


class StopAtNaN(Callback):
    """Raises a `UserError` if the loss is nan or infinite, before the weights are saved.

    Args:
      run: the run, whose last checkpoint the message names.
      clock: counts the steps, and has the settings.
    """

    stage = Stage.JUDGE

    def __init__(self, run: Run, clock: Clock) -> None:
        super().__init__()
        self.run = run
        self.clock = clock

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        if not math.isfinite(loss := training_loss(logs)):
            raise diverged(self.run, self.clock.config, self.clock.step, loss)
