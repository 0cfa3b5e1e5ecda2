"""Messages of the library, sent through `logging` to the logger "minigpt".

INFO reports slow steps ("downloading ..."). WARNING reports damage that was repaired or ignored. A program
shows the messages by configuring `logging`. `minigpt.train` prints them on its console; the command line
prints them on standard error.
"""

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LOGGER = logging.getLogger("minigpt")

Sink = Callable[[str], object]
_sink: ContextVar[Sink | None] = ContextVar("minigpt_notices", default=None)


class _SinkHandler(logging.Handler):
    """Passes records to the sink of the current thread, and those of other threads on to `logging`."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._users = 0

    def install(self) -> None:
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            self._level, self._propagate = LOGGER.level, LOGGER.propagate
            self._effective_level = LOGGER.getEffectiveLevel()
            LOGGER.addHandler(self)
            LOGGER.setLevel(min(logging.INFO, self._effective_level))
            LOGGER.propagate = False

    def uninstall(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            LOGGER.removeHandler(self)
            LOGGER.setLevel(self._level)
            LOGGER.propagate = self._propagate

    def handle(self, record: logging.LogRecord) -> bool:
        # Overrides `handle`, not `emit`: one slow sink should not block the other threads.
        if sink := _sink.get():
            if record.levelno >= logging.INFO:
                sink(record.getMessage())
        elif self._propagate and LOGGER.parent and record.levelno >= self._effective_level:
            LOGGER.parent.callHandlers(record)
        return True


_HANDLER = _SinkHandler()


@contextmanager
def notices_to(sink: Sink) -> Iterator[None]:
    """Passes every message of level INFO or above of this thread to `sink`.

    Meanwhile, the messages are not passed to the root logger. In nested calls the innermost sink receives
    the messages. Several threads may use it at the same time, each with its own sink.

    Args:
      sink: called with one line.
    """
    _HANDLER.install()
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)
        _HANDLER.uninstall()


@contextmanager
def deprecated_report(report: Sink | None) -> Iterator[None]:
    """Supports the argument `report` of earlier versions: passes messages to it, with a warning."""
    if report is None:
        yield
        return
    # 4: past this generator, contextlib and the function whose argument it is.
    warnings.warn(
        "The argument `report` is deprecated; messages go through logging.getLogger('minigpt').",
        DeprecationWarning,
        stacklevel=4,
    )
    with notices_to(report):
        yield
