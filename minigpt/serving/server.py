"""Runs the application until a signal, with uvicorn."""

import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from minigpt.errors import ArgumentProblem, UserError
from minigpt.interrupts import signals_handled_by

# Requests that run when a signal arrives may end within this time; stopping takes at most 20 s.
_GRACE_SECONDS = 18
# Idle connections are closed after this time. Clients close theirs earlier, many after 5 s: if both close a
# connection at once, a request fails.
_IDLE_SECONDS = 60
# How long one thread keeps Python from another. After each step, the engines' threads need it for a moment;
# Python's default is as long as a few steps of a small model.
_SWITCH_SECONDS = 0.0005
# Open connections; further ones are answered with 503.
_MOST_CONNECTIONS = 1000


class _Protocol(H11Protocol):
    """A connection of HTTP/1.1."""

    def send_400_response(self, msg: str) -> None:
        """Answers a request that is not HTTP."""
        if self.cycle is not None:
            # What is wrong may be in a body: the application's answer would be a second one.
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        self.transport.close()


class _Server(uvicorn.Server):
    """A server that ends with status 0 after a signal, which is the normal way to stop it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with signals_handled_by(self.handle_exit):
            yield


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket at an address of this machine; port 0 is any that is free.

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
    """Answers requests until Ctrl-C or SIGTERM, and finishes those that run then within 20 s.

    `on_start` is called when requests are answered.
    """
    config = uvicorn.Config(
        application,
        http=_Protocol,
        lifespan="on",
        log_config=None,
        log_level="error",
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
