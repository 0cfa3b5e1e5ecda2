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


def stopping_signals() -> list[signal.Signals]:
    """Ctrl-C and what a system sends to end a program: SIGTERM, and SIGHUP unless under `nohup`."""
    found = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        found.append(signal.SIGHUP)
    return found


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
