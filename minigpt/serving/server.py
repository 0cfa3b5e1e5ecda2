"""Runs the application until a signal asks it to stop."""

import errno
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from minigpt.errors import ArgumentProblem, UserError
from minigpt.interrupts import stopping_signals
from minigpt.serving.protocol import Protocol

# What runs when a signal arrives may end within this time; the whole takes at most 20 s.
_GRACE_SECONDS = 18
# Idle connections are closed after this time. Clients close theirs earlier, many after 5 s: if both close a
# connection at once, a request fails.
_IDLE_SECONDS = 60
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
        http=Protocol,
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    on_start()
    _Server(config).run(sockets=[listening])
