"""Messages of the library, sent through `logging` to the logger "minigpt".

INFO reports slow steps ("downloading ..."). WARNING reports damage that was repaired or ignored. A program
shows the messages by configuring `logging`. `minigpt.train` prints them on its console; the command line
prints them on standard error.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Sink = Callable[[str], object]
_sink: ContextVar[Sink | None] = ContextVar("minigpt_notices", default=None)


class _Notices(logging.LoggerAdapter[logging.Logger]):
    """Passes messages to the sink of the current thread; without one, to the logger."""

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        sink = _sink.get()
        if sink is None:
            super().log(level, msg, *args, **kwargs)
        elif level >= logging.INFO:
            sink(str(msg) % args if args else str(msg))


LOGGER = _Notices(logging.getLogger("minigpt"))


@contextmanager
def notices_to(sink: Sink) -> Iterator[None]:
    """Passes every message of this thread, of INFO or above, to `sink` instead of the logger.

    In nested calls the innermost sink receives the messages. Several threads may use it at the same time,
    each with its own sink.
    """
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)
