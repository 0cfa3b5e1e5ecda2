"""Messages of the library: everything goes through `logging`, below the logger "minigpt".

INFO says what takes time ("downloading ..."), WARNING what was found damaged and replaced. A program
shows them by configuring `logging`; `minigpt.train` prints them on its console; the command line prints
them on standard error.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger("minigpt")


class _SinkHandler(logging.Handler):
    def __init__(self, sink: Callable[[str], object]) -> None:
        super().__init__(logging.INFO)
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        self._sink(record.getMessage())


@contextmanager
def notices_to(sink: Callable[[str], object]) -> Iterator[None]:
    """Passes every message of level INFO or above to `sink`, and to nothing else.

    Args:
      sink: called with one line.
    """
    handler = _SinkHandler(sink)
    level, propagate = LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate


@contextmanager
def deprecated_report(report: Callable[[str], object] | None) -> Iterator[None]:
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
