"""Signals that ask the program to stop.

The exception that Ctrl-C raises may be suppressed by a library, for example inside a callback from C++.
The signal is therefore recorded, and checked again between the steps of the program.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# The exit status of a command that was interrupted.
INTERRUPTED = 130

_requested = _reported = False


class Interrupted(KeyboardInterrupt):
    """An interrupt; the user has already been told what was saved and how to continue."""

    def __init__(self) -> None:
        global _reported
        super().__init__()
        _reported = True


def was_answered() -> bool:
    """Returns whether an `Interrupted` was raised, even if a library has replaced it since."""
    return _reported


def was_requested() -> bool:
    """Returns whether one of the signals has arrived."""
    return _requested


def stopping_signals() -> list[signal.Signals]:
    """Returns Ctrl-C, SIGTERM and SIGHUP, which Windows lacks, without those that are ignored.

    `nohup` ignores SIGHUP and a shell's `&` in a script ignores Ctrl-C; both stay ignored.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = (getattr(signal, name) for name in names if hasattr(signal, name))
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


@contextmanager
def default_signals() -> Iterator[None]:
    """Makes these signals end the process at once, for a call that does not return to Python for long."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread may handle signals.
        return
    with signals_handled_by(signal.SIG_DFL):
        yield


@contextmanager
def signals_handled_by(handler: Callable[[int, FrameType | None], Any] | int) -> Iterator[None]:
    """Sets the handler of the signals that stop a program for a block; works in the main thread only."""
    previous = {number: signal.signal(number, handler) for number in stopping_signals()}
    try:
        yield
    finally:
        for number, former in previous.items():
            signal.signal(number, former)


def remember_interrupts() -> None:
    """Makes these signals raise `KeyboardInterrupt` and records them. Main thread only."""
    for number in stopping_signals():
        signal.signal(number, _remember)


def stop_if_interrupted() -> None:
    """Raises `KeyboardInterrupt` if a signal has arrived whose exception was lost."""
    if _requested:
        raise KeyboardInterrupt


def _remember(number: int, frame: FrameType | None) -> None:
    global _requested
    _requested = True
    raise KeyboardInterrupt
