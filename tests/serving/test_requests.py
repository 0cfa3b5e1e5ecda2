"""Requests that cannot be used: a status, the field and one line each, and nothing of the server in it."""

import json
import random
import socket
import time

import pytest

FINE = {"prompt": "Ana", "max_tokens": 2}
# Fields → the field that the error names.
REFUSED = [
    ({"prompt": 5}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [1, 320]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [3] * 4097}, "prompt"),
    ({"prompt": "a b" * 200_000}, "prompt"),
    # Probabilities of a prompt's tokens are those within one context.
    ({"prompt": [3] * 17, "max_tokens": 0, "echo": True, "logprobs": 0}, "prompt"),
    ({"prompt": "\ud800"}, None),
    ({"temperature": -1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_k": 1.5}, "top_k"),
    ({"n": 0}, "n"),
    ({"n": 100, "prompt": ["a", "b"]}, "n"),
    ({"n": 47}, None),  # More than the slots and the queue hold.
    ({"max_tokens": 1025}, "max_tokens"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"stop": ["a", 1]}, "stop"),
    ({"stop": "x" * 10_000}, "stop"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"logit_bias": {"05": 1}}, "logit_bias"),
    ({"logit_bias": {"320": 1}}, "logit_bias"),
    ({"logit_bias": {"5": 101}}, "logit_bias"),
    ({"logprobs": 11}, "logprobs"),
    ({"suffix": "x"}, "suffix"),
    ({"seed": 2**63}, "seed"),
    ({"temprature": 1}, "temprature"),
    ({"best_of": 1}, "best_of"),
    ({"beams": 2}, "beams"),
    ({"k" * 10_000: 1}, "k" * 80),
    ({"stream_options": {}}, "stream_options"),
    ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED, ids=lambda value: str(value)[:30])
def test_fields(fields, param, server):
    error = server.refused("/v1/completions", {**FINE, **fields})
    assert error["param"] == param
    assert param is None or param in error["message"]
    assert len(error["message"]) < 200


def test_the_largest_values(server):
    server.complete(prompt=[3] * 4096, max_tokens=1)
    server.complete(prompt=[3] * 16, max_tokens=0, echo=True, logprobs=10)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff", 400),
        (b"[" * 100_000, 400),
        (b"[]", 400),
        (b"null", 400),
        (b'{"seed": ' + b"9" * 4000 + b"}", 400),
        (b'{"seed": ' + b"9" * 10_000 + b"}", 400),
        (b'{"temperature": NaN}', 400),
        (b'{"temperature": 1e999}', 400),
        (b"x" * (2**20 + 1), 413),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bodies(body, status, server):
    server.refused("/v1/completions", body, status, method="POST")


def test_what_is_not_an_endpoint(server):
    plain = {"Content-Type": "text/plain"}
    server.refused("/v1/completions", b"{}", 415, headers=plain)
    for path in ("/v1/nothing", "/../../etc/passwd", "/healthz/"):
        server.refused(path, None, 404)
    server.refused("/v1/completions", None, 405)
    server.refused("/healthz", {}, 405)


def test_other_hosts(server):
    """A web page whose name resolves to this machine (DNS rebinding) is not answered."""
    server.refused("/v1/models", None, 403, headers={"Host": "evil.example"})
    for name in (f"localhost:{server.port}", "127.0.0.1", "[::1]:80", "LOCALHOST"):
        assert server.ask("/v1/models", headers={"Host": name})[0] == 200


def test_large_malformed_bodies(server):
    """They neither take seconds nor stop other requests."""
    began = time.monotonic()
    for item, path in (
        (b"{}", "prompt"),
        (b"1", "stop"),
        (b'"a",1', "prompt"),
        (b"[{}]", "prompt"),
    ):
        count = (2**20 - 100) // (len(item) + 1)
        body = b'{"%s": [' % path.encode() + b",".join([item] * count) + b"]}"
        assert server.refused("/v1/completions", body)["param"] == path
    names = b"{" + b",".join(b'"%d": 1' % i for i in range(90_000)) + b"}"
    server.refused("/v1/completions", names)
    biases = b'{"logit_bias": ' + names + b"}"
    assert server.refused("/v1/completions", biases)["param"] == "logit_bias"
    assert time.monotonic() - began < 20  # It took minutes when each mistake was reported.


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_malformed_requests(count, server, tally):
    """4xx each, and the server goes on."""
    draw = random.Random(0)
    statuses: dict[int, int] = {}
    for _ in range(count):
        status = _raw_status(server.port, _malformed(draw))
        statuses[status] = statuses.get(status, 0) + 1
    tally(inputs=count)
    assert statuses.keys() <= set(range(400, 500)), statuses
    assert statuses.keys() >= {400, 404, 405, 415}
    assert server.complete(**FINE)["usage"]["completion_tokens"] <= 2
    assert server.process.poll() is None
    assert not any("Traceback" in line for line in server.lines)


def _malformed(draw: random.Random) -> bytes:
    """A request that is wrong in one way."""
    body = json.dumps({**FINE, "temperature": 0.5, "stop": ["x"], "logit_bias": {"5": 1}}).encode()
    path, method, kind = "/v1/completions", "POST", "application/json"
    version, more = "HTTP/1.1", ""
    match draw.randrange(8):
        case 0:  # Cut off.
            body = body[: draw.randrange(len(body))]
        case 1:  # A byte that JSON has in no place outside of strings, or an invalid one.
            at = draw.randrange(len(body))
            body = body[:at] + draw.choice([b"\x00", b"\xff", b"\x80", b"\n\x01"]) + body[at:]
        case 2:
            values = [None, True, "x", [], {}, 1e400, -1, 2**64, [[1, "a"]], {"a": 1}]
            field = draw.choice(["prompt", "max_tokens", "n", "stream", "seed", "logprobs"])
            wrong = {"max_tokens": "x", "n": -1, "stream": "yes", "seed": 0.5, "logprobs": -1}
            value = draw.choice(values)
            body = json.dumps({**FINE, field: wrong.get(field, {"v": value})}).encode()
        case 3:
            body = json.dumps({**FINE, "".join(draw.choices("abcxyz_", k=9)): 1}).encode()
        case 4:
            path = "/" + "".join(draw.choices("abc/.%<>", k=draw.randrange(1, 40)))
        case 5:
            method = draw.choice(["GET", "PUT", "DELETE", "PATCH", "TRACE", "BREW"])
        case 6:
            kind = draw.choice(
                ["text/plain", "", "application/x-www-form-urlencoded", "multipart/x"]
            )
        case 7:
            more = draw.choice(
                ["Bad Header\r\n", ": x\r\n", "Content-Length: x\r\n", "A\x00: b\r\n"]
            )
    head = f"{method} {path} {version}\r\nHost: localhost\r\nConnection: close\r\n{more}"
    head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode("latin-1") + body


def _raw_status(port: int, request: bytes) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return int(answer.split(b" ", 2)[1])
