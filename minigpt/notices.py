"""Messages of the library, sent through `logging` to the logger "minigpt".

INFO reports slow steps ("downloading ..."). WARNING reports damage that was repaired or ignored. A program
shows the messages by configuring `logging`. `minigpt.train` prints them on its console; the command line
prints them on standard error.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from minigpt.environment import SharedContext

LOGGER = logging.getLogger("minigpt")

Sink = Callable[[str], object]
_sink: ContextVar[Sink | None] = ContextVar("minigpt_notices", default=None)


class _SinkHandler(logging.Handler):
    """Passes records to the sink of the current thread, and those of other threads on to `logging`."""

    def __init__(self, level: int, propagate: bool) -> None:
        super().__init__()
        self._other_threads_level = level
        self._propagate = propagate

    def handle(self, record: logging.LogRecord) -> bool:
        # Overrides `handle`, not `emit`: one slow sink should not block the other threads.
        if sink := _sink.get():
            if record.levelno >= logging.INFO:
                sink(record.getMessage())
        elif self._propagate and LOGGER.parent and record.levelno >= self._other_threads_level:
            LOGGER.parent.callHandlers(record)
        return True


@contextmanager
def _handled_by_sinks() -> Iterator[None]:
    level, propagate = LOGGER.level, LOGGER.propagate
    handler = _SinkHandler(LOGGER.getEffectiveLevel(), propagate)
    LOGGER.addHandler(handler)
    LOGGER.setLevel(min(logging.INFO, LOGGER.getEffectiveLevel()))
    LOGGER.propagate = False
    yield
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(level)
    LOGGER.propagate = propagate


_shared_handler = SharedContext(_handled_by_sinks)


@contextmanager
def notices_to(sink: Sink) -> Iterator[None]:
    """Passes every message of level INFO or above of this thread to `sink`.

    Meanwhile, the messages are not passed to the root logger. In nested calls the innermost sink receives
    the messages. Several threads may use it at the same time, each with its own sink.

    Args:
      sink: called with one line.
    """
    with _shared_handler:
        token = _sink.set(sink)
        try:
            yield
        finally:
            _sink.reset(token)
