"""Which signals end a program, and which it was told not to hear."""

import os
import signal

import pytest
from rich.console import Console

from minigpt.interrupts import remember_interrupts, stopping_signals
from minigpt.training.stopping import Interrupt


@pytest.fixture(autouse=True)
def handlers():
    """As they were, afterwards."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_what_was_ignored_at_the_start_stays_ignored(number):
    """As `nohup` leaves SIGHUP, and a script's `&` Ctrl-C."""
    signal.signal(number, signal.SIG_IGN)
    assert number not in stopping_signals() and signal.SIGTERM in stopping_signals()
    remember_interrupts()
    interrupt = Interrupt(Console(quiet=True))
    interrupt.__enter__()
    os.kill(os.getpid(), number)
    assert signal.getsignal(number) == signal.SIG_IGN
    assert not interrupt.requested
    os.kill(os.getpid(), signal.SIGTERM)
    assert interrupt.requested
    interrupt.__exit__()
    assert signal.getsignal(number) == signal.SIG_IGN
