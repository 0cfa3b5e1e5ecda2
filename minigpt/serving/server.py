"""Runs the application until a signal asks it to stop."""

import asyncio
import errno
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from minigpt.errors import ArgumentProblem, UserError
from minigpt.interrupts import stopping_signals

# What runs when a signal arrives may end within this time; the whole takes at most 20 s.
_GRACE_SECONDS = 18
# Idle connections are closed after this time. Clients close theirs earlier, many after 5 s: if both close a
# connection at once, a request fails.
_IDLE_SECONDS = 60
# A connection without a whole request head is closed after this time.
_HEAD_SECONDS = 30
# Open connections; further ones are answered with 503.
_MOST_CONNECTIONS = 1000
# How long one thread keeps Python from another. After each step, the engines' threads need it for a moment;
# Python's default is as long as a few steps of a small model.
_SWITCH_SECONDS = 0.0005


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


class _Protocol(H11Protocol):
    """HTTP/1.1 with a limit of time for the head of a request, the first one and those that follow."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(_HEAD_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waits = self.conn.their_state is h11.IDLE
        if waits and self._deadline is None:
            self._deadline = self.loop.call_later(_HEAD_SECONDS, self.transport.close)
        elif not waits:
            self._end_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        super().connection_lost(exc)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


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
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=2048, dualstack_ipv6=both)
    except OSError as error:
        # Python's own text repeats the address.
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno == errno.EADDRNOTAVAIL:
            raise UserError(ArgumentProblem("host", host, reason)) from None
        raise UserError(ArgumentProblem("port", port, reason)) from None


def is_loopback(listening: socket.socket) -> bool:
    """Returns whether only programs on this machine reach a socket."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


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
        http=_Protocol,
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
    sys.setswitchinterval(_SWITCH_SECONDS)
    on_start()
    _Server(config).run(sockets=[listening])
