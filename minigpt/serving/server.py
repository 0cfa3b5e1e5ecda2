"""Runs the application until a signal: uvicorn, with limits of time, and errors as JSON."""

import asyncio
import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from minigpt.errors import ArgumentProblem, UserError
from minigpt.interrupts import signals_handled_by
from minigpt.serving.bodies import RequestError

# Requests that run when a signal arrives may end within this time; stopping takes at most 20 s.
_GRACE_SECONDS = 18
# Idle connections are closed after this time. Clients close theirs earlier, many after 5 s: if both close a
# connection at once, a request fails.
_IDLE_SECONDS = 60
# How long one thread keeps Python from another. After each step, the engines' threads need it for a moment;
# Python's default is as long as a few steps of a small model.
_SWITCH_SECONDS = 0.0005
# A connection without a whole request head is closed after this time.
_HEAD_SECONDS = 30
# A connection whose client has read nothing of what waits for it is closed after this time.
_READ_SECONDS = 30
# Size in bytes of a connection's send buffer. Linux reports that a client has read only after a third of
# the buffer is free, and its own choice of up to 4 MB makes a slow client look like one that reads nothing.
_SEND_BUFFER = 65_536
# Open connections; further ones are answered with 503.
_MOST_CONNECTIONS = 1000


class _Protocol(H11Protocol):
    """A connection of HTTP/1.1."""

    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._application, self.app = self.app, self._limited

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application, unless there are too many connections."""
        if len(self.connections) < _MOST_CONNECTIONS:
            await self._application(scope, receive, send)
            return
        error = RequestError(503, "too many connections are open; try again later")
        await error.response()(scope, receive, send)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER
        )
        self._deadline = self.loop.call_later(_HEAD_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waits = self.conn.their_state is h11.IDLE
        if waits and self._deadline is None:
            self._deadline = self.loop.call_later(_HEAD_SECONDS, self.transport.close)
        elif not waits and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def pause_writing(self) -> None:
        """Called when the client does not read what is sent to it."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _await_reading(self) -> None:
        left = self.transport.get_write_buffer_size()

        def check() -> None:
            if self.transport.get_write_buffer_size() < left:
                self._await_reading()
            else:
                self.transport.abort()

        self._reading = self.loop.call_later(_READ_SECONDS, check)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._reading):
            if timer is not None:
                timer.cancel()
        self._deadline = self._reading = None
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answers a request that is not HTTP."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            error = RequestError(400, "the request is not valid HTTP/1.1").response()
            self._write(error)
        if self.cycle is not None:
            # What is wrong may be in a body: the application's answer would be a second one.
            self.cycle.disconnected = True
        self.transport.close()

    def _write(self, response: Response) -> None:
        headers = [*response.raw_headers, (b"connection", b"close")]
        start = h11.Response(status_code=response.status_code, headers=headers)
        for event in (start, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")


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
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    on_start()
    _Server(config).run(sockets=[listening])
