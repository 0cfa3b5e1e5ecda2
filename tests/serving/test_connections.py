"""Connections: malformed and too many; a run that is deleted."""

import contextlib
import http.client
import shutil
import socket
import time
from collections.abc import Iterator

import pytest

from tests.serving.running import Served, changed, sent, serving
from tests.serving.test_lifetime import wait_until


@pytest.fixture(scope="module")
def small(tiny_run) -> Iterator[Served]:
    """A server with few connections."""
    program = changed(_MOST_CONNECTIONS=5)
    with serving(tiny_run.path, "--threads", "1", program=program) as served:
        yield served


def answer(connection: socket.socket) -> tuple[int, bytes]:
    with contextlib.closing(http.client.HTTPResponse(connection)) as response:
        response.begin()
        return response.status, response.read()


def refused(status: int, connection: socket.socket) -> None:
    with connection:
        assert answer(connection)[0] == status


@pytest.mark.parametrize(
    "head", [b"NONSENSE\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n", b"GET /" + b"x" * 100_000]
)
def test_a_malformed_head(small, head):
    connection = socket.create_connection((small.host, small.port), timeout=20)
    connection.sendall(head)
    refused(400, connection)


def test_malformed_requests_leave_no_line_where_the_server_runs(small):
    """The application answers at the head, before it is known that the body is malformed."""
    before = len(small.lines)
    head = "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked"
    connection = sent(small, head + "\r\nHost: localhost\r\n\r\nzz\r\n")
    refused(400, connection)
    upgrade = sent(small, "GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket")
    with upgrade:
        assert answer(upgrade)[0] == 200
    time.sleep(0.3)
    assert small.lines[before:] == []


def test_too_many_connections(small):
    idle = [socket.create_connection((small.host, small.port)) for _ in range(4)]
    try:
        refused(503, sent(small, "GET /healthz HTTP/1.1"))
    finally:
        for connection in idle:
            connection.close()
    wait_until(lambda: small.ask("/healthz")[0] == 200)


def test_a_run_that_is_deleted(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    with serving(run, "--threads", "1") as served:
        shutil.rmtree(run)
        served.refused("/", None, 500)
        assert served.complete(prompt="Ana", max_tokens=3)["usage"]["completion_tokens"] <= 3
        wait_until(lambda: any("cannot be written" in line for line in served.lines))
        assert len(served.lines) == 2 and "Traceback" not in "".join(served.lines)
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    with serving(run, "--threads", "1") as served:
        page = served.ask("/")
        shutil.rmtree(run)
        assert served.ask("/") == page and page[0] == 200
