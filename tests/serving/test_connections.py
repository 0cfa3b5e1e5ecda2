"""Connections: malformed, too many, and answers that nobody reads; a run that is deleted."""

import contextlib
import http.client
import shutil
import socket
import time
from collections.abc import Iterator

import pytest

from tests.serving.running import Served, changed, checked_error, sent, serving
from tests.serving.test_lifetime import ENDLESS, long_text, wait_until


@pytest.fixture(scope="module")
def impatient(tiny_run) -> Iterator[Served]:
    """A server with short limits of time, and few connections."""
    program = changed(_READ_SECONDS=1, _MOST_CONNECTIONS=5)
    with serving(tiny_run.path, "--threads", "1", *ENDLESS, program=program) as served:
        yield served


def answer(connection: socket.socket) -> tuple[int, bytes]:
    with contextlib.closing(http.client.HTTPResponse(connection)) as response:
        response.begin()
        return response.status, response.read()


def refused(status: int, connection: socket.socket) -> None:
    with connection:
        found, body = answer(connection)
    assert found == status
    checked_error(body)


@pytest.mark.parametrize(
    "head", [b"NONSENSE\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n", b"GET /" + b"x" * 100_000]
)
def test_a_malformed_head(impatient, head):
    connection = socket.create_connection((impatient.host, impatient.port), timeout=20)
    connection.sendall(head)
    refused(400, connection)


def test_malformed_requests_leave_no_line_where_the_server_runs(impatient):
    """The application answers at the head, before it is known that the body is malformed."""
    before = len(impatient.lines)
    head = "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked"
    connection = sent(impatient, head + "\r\nHost: localhost\r\n\r\nzz\r\n")
    refused(400, connection)
    upgrade = sent(impatient, "GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket")
    with upgrade:
        assert answer(upgrade)[0] == 200
    time.sleep(0.3)
    assert impatient.lines[before:] == []


def test_too_many_connections(impatient):
    idle = [socket.create_connection((impatient.host, impatient.port)) for _ in range(4)]
    try:
        refused(503, sent(impatient, "GET /healthz HTTP/1.1"))
    finally:
        for connection in idle:
            connection.close()
    wait_until(lambda: impatient.ask("/healthz")[0] == 200)


def test_an_answer_that_is_not_read_ends(impatient, model):
    """A client that reads slowly keeps its connection; one that reads nothing loses it, and its text."""
    fields = {**long_text(model), "stream": True, "logprobs": 10}
    small = (socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
    with sent(impatient, "POST /v1/completions HTTP/1.1", fields, small) as connection:
        # Several times the limit, at less than 200 kB/s.
        for _ in range(24):
            assert connection.recv(50_000)
            time.sleep(0.25)
        assert impatient.texts("running") == 1
        wait_until(lambda: impatient.texts("running") == 0)
        # What was sent is still there, and then the connection ends.
        received = b"data"
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(1 << 16):
                received = received[-1000:] + data
        assert b"[DONE]" not in received


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
