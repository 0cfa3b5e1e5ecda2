"""Ctrl-C that is not lost: libraries sometimes swallow the exception it raises."""

import signal
from types import FrameType

_requested = False


class Interrupted(KeyboardInterrupt):
    """A Ctrl-C that was answered: what is saved, and what to do next, has been said."""


def remember_interrupts() -> None:
    """From now on Ctrl-C raises `KeyboardInterrupt` as always, and is remembered. Main thread only."""
    signal.signal(signal.SIGINT, _remember)


def stop_if_interrupted() -> None:
    """Raises `KeyboardInterrupt` if there was a Ctrl-C and its exception went astray."""
    if _requested:
        raise KeyboardInterrupt


def _remember(number: int, frame: FrameType | None) -> None:
    global _requested
    _requested = True
    raise KeyboardInterrupt
