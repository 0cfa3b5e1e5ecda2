"""Ctrl-C that is not lost: libraries sometimes swallow the exception it raises."""

import signal
from types import FrameType

_requested = _answered = False


class Interrupted(KeyboardInterrupt):
    """A Ctrl-C that was answered: what is saved, and what to do next, has been said."""

    def __init__(self) -> None:
        global _answered
        super().__init__()
        _answered = True


def was_answered() -> bool:
    """Whether an `Interrupted` was raised: libraries turn it into something else on its way up."""
    return _answered


def was_requested() -> bool:
    """Whether such a signal came."""
    return _requested


def stopping_signals() -> list[signal.Signals]:
    """Ctrl-C, SIGTERM and SIGHUP, as far as whoever started the program wants them to be heard.

    `nohup` has SIGHUP ignored, and a shell's `&` in a script Ctrl-C: then that stays so.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


def remember_interrupts() -> None:
    """From now on these signals raise `KeyboardInterrupt`, and are remembered. Main thread only."""
    for number in stopping_signals():
        signal.signal(number, _remember)


def stop_if_interrupted() -> None:
    """Raises `KeyboardInterrupt` if there was a Ctrl-C and its exception went astray."""
    if _requested:
        raise KeyboardInterrupt


def _remember(number: int, frame: FrameType | None) -> None:
    global _requested
    _requested = True
    raise KeyboardInterrupt
