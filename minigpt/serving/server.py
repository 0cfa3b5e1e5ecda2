"""Runs the application until a signal asks it to stop."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from minigpt.errors import ArgumentProblem, UserError
from minigpt.interrupts import stopping_signals

# What runs when a signal arrives may end within this time; the whole takes at most 20 s.
_GRACE_SECONDS = 18
# Idle connections are closed after this time. Clients close theirs earlier, many after 5 s: if both close a
# connection at once, a request fails.
_IDLE_SECONDS = 60
# Open connections; further ones are answered with 503.
_MOST_CONNECTIONS = 1000


class _Server(uvicorn.Server):
    """A server that ends with status 0 after a signal: that is how it is stopped."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        previous = {
            number: signal.signal(number, self.handle_exit) for number in stopping_signals()
        }
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket at an address.

    Args:
      host: a name or an address of this machine.
      port: the port; 0 for any that is free.
    Raises:
      UserError: the address cannot be used.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise UserError(ArgumentProblem("host", host, f"{error.strerror or error}")) from None
    try:
        return socket.create_server(address, family=family, backlog=2048)
    except OSError as error:
        # Python's own text repeats the address.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UserError(ArgumentProblem("port", port, reason)) from None


def run_server(
    application: ASGIApp, listening: socket.socket, on_start: Callable[[], None]
) -> None:
    """Answers requests until Ctrl-C or SIGTERM; finishes what runs then, within 20 s.

    Args:
      application: the application.
      listening: where requests arrive.
      on_start: called when requests are answered.
    """
    config = uvicorn.Config(
        application,
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    on_start()
    _Server(config).run(sockets=[listening])
