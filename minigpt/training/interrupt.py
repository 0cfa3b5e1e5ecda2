"""Ctrl-C and similar signals during training."""

import signal
from types import FrameType
from typing import Any

from rich.console import Console

from minigpt.interrupts import stopping_signals
from minigpt.training.console import show


class TrainingInterrupted(Exception):
    """Leaves the training loop between two weight updates, or after the end of an epoch."""


class Interrupt:
    """Notes the first Ctrl-C, SIGTERM or SIGHUP; a second signal has its usual effect.

    To be used in a `with` statement.

    Args:
      console: where to print. It is silenced after SIGHUP, because the terminal is gone.

    Attributes:
      requested: whether a signal has arrived.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> None:
        try:
            for number in stopping_signals():
                self._previous[number] = signal.signal(number, self._request)
        except ValueError:
            pass  # Only the main thread may handle signals.

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self.__exit__()
        if number == signal.SIGHUP:
            # Writing to a terminal that is gone would end training before its state is saved.
            self.console.quiet = True
        show(
            self.console,
            "Stopping after this step, or after the validation if an epoch ends; Ctrl-C again stops "
            "immediately.",
        )
