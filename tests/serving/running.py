"""Servers in processes of their own."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Served:
    """A running server.

    Attributes:
      process: its process.
      url: its address, "http://127.0.0.1:PORT".
      lines: what it has printed.
    """

    process: subprocess.Popen
    url: str
    lines: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        host = self.url.removeprefix("http://").rpartition(":")[0]
        return "127.0.0.1" if host == "0.0.0.0" else host

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def ask(
        self,
        path: str,
        body: Any = None,
        method: str | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> tuple[int, bytes]:
        """Returns status and body of an answer. A body that is not bytes is sent as JSON."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        with contextlib.closing(connection):
            connection.request(method or ("GET" if body is None else "POST"), path, data, sent)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def complete(self, **fields: Any) -> dict[str, Any]:
        """Returns the answer of `/v1/completions`."""
        status, answer = self.ask("/v1/completions", fields)
        assert status == 200, answer
        return json.loads(answer)

    def refused(self, path: str, body: Any, status: int = 400, **options: Any) -> dict[str, Any]:
        """Returns an error."""
        found, answer = self.ask(path, body, **options)
        assert found == status, answer
        return checked_error(answer)

    def texts(self, kind: str) -> int:
        """Returns the number of texts that are "running" or "waiting"."""
        return json.loads(self.ask("/healthz")[1])[kind]


def checked_error(answer: bytes) -> dict[str, Any]:
    """Returns the error of an answer, which has one line."""
    error = json.loads(answer)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"] and "\n" not in error["message"]
    return error


@contextlib.contextmanager
def serving(
    model: Path, *options: str, program: str | None = None, **environment: str
) -> Iterator[Served]:
    """Starts `minigpt serve`; program: what runs in place of `python -m minigpt`."""
    start = ["-m", "minigpt"] if program is None else ["-c", program]
    command = [sys.executable, *start, "serve", str(model), "--port", "0", *options]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    served = Served(process, "")
    try:
        for line in process.stderr:
            served.lines.append(line)
            if found := re.search(r"at (http://\S+)\. ", line):
                served.url = found[1]
                break
        else:
            pytest.fail(f"the server did not start: {served.lines}")
        # A full pipe would stop the server.
        reader = threading.Thread(target=lambda: served.lines.extend(process.stderr), daemon=True)
        reader.start()
        yield served
    finally:
        process.kill()
        process.wait()


def changed(**constants: float) -> str:
    """Returns a program that runs the command line with other constants of the server."""
    lines = [f"server.{name} = {value}" for name, value in constants.items()]
    start = "from minigpt.__main__ import main; main()"
    return "\n".join(["from minigpt.serving import server", *lines, start])


def sent(
    served: Served, head: str, body: Any = None, options: tuple[int, ...] = ()
) -> socket.socket:
    """Returns a connection on which a request has been sent."""
    connection = socket.socket()
    if options:
        connection.setsockopt(*options)
    connection.settimeout(60)
    connection.connect((served.host, served.port))
    data = b"" if body is None else json.dumps(body).encode()
    kind = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n" if data else ""
    connection.sendall(f"{head}\r\nHost: localhost\r\n{kind}\r\n".encode() + data)
    return connection
