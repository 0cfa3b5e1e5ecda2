"""A connection of HTTP/1.1: what uvicorn does, with limits of time, and errors as JSON."""

import asyncio
import socket
from typing import Any

import h11
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from minigpt.serving.errors import RequestError

# A connection without a whole request head is closed after this time.
_HEAD_SECONDS = 30
# A connection whose client has read nothing of what waits for it is closed after this time.
_READ_SECONDS = 30
# Size in bytes of a connection's send buffer. Linux reports that a client has read only after a third of
# the buffer is free, and its own choice of up to 4 MB makes a slow client look like one that reads nothing.
_SEND_BUFFER = 65_536
# How often a client that sends nothing more is asked whether it is still there.
_PROBE_SECONDS = 1
# Open connections; further ones are answered with 503.
_MOST_CONNECTIONS = 1000
# Scope of a request whose answer is a stream of events: a comment may stand between two of them.
EVENT_STREAM = "minigpt.event_stream"
_COMMENT = b":\n\n"


class Protocol(H11Protocol):
    """A connection.

    A client may close its side after its request, and gets its answer. One that is gone altogether looks
    the same, until something is sent to it. Before an answer begins, that is "100 Continue", which clients
    skip; between the events of a stream, a comment.
    """

    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _probing: asyncio.TimerHandle | None = None

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

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keeps a connection open whose client waits for an answer."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        cycle.keep_alive = False
        self._probing = self.loop.call_later(_PROBE_SECONDS, self._probe)
        return True

    def _probe(self) -> None:
        """Sends something that is not part of an answer; if nobody is there, the connection is lost."""
        cycle = self.cycle
        assert cycle is not None
        if cycle.response_complete or self.transport.is_closing():
            return
        if not cycle.response_started and cycle.scope["http_version"] == "1.1":
            event: h11.Event = h11.InformationalResponse(
                status_code=100, headers=[], reason="Continue"
            )
            self.transport.write(self.conn.send(event) or b"")
        elif cycle.response_started and EVENT_STREAM in cycle.scope["state"]:
            self.transport.write(self.conn.send(h11.Data(data=_COMMENT)) or b"")
        self._probing = self.loop.call_later(_PROBE_SECONDS, self._probe)

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
        for timer in (self._deadline, self._reading, self._probing):
            if timer is not None:
                timer.cancel()
        self._deadline = self._reading = self._probing = None
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
