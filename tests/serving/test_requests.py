"""Requests that cannot be used: a status and one line each, and nothing of the server in it."""

import json
import random
import socket
import time

import pytest

FINE = {"prompt": "Ana", "max_tokens": 2}
MESSAGES = {
    "prompt = 5": (
        {"prompt": 5},
        "prompt: should be a string, a list of strings, a list of token ids",
    ),
    "no prompts": ({"prompt": []}, "prompt: has 0 texts; should have from 1 to 128"),
    "a token": ({"prompt": [1, 10**6]}, "prompt = 1000000: should be a token from 0 to 319"),
    "a negative token": ({"prompt": [-1]}, "prompt = -1: should be a token from 0 to 319"),
    "surrogate": ({"prompt": "\ud800"}, "the body should be valid JSON"),
    "temperature": (
        {"temperature": -1},
        "temperature = -1.0: should be greater than or equal to 0",
    ),
    "text": ({"temperature": "hot"}, "temperature: should be a valid number"),
    "top_p": ({"top_p": 0}, "top_p = 0.0: should be greater than 0"),
    "n": ({"n": 0}, "n: should be greater than or equal to 1"),
    "texts": ({"n": 100, "prompt": ["a", "b"]}, "200 texts are asked for; should be at most 128"),
    "max_tokens": ({"max_tokens": 1025}, "max_tokens = 1025: should be from 0 to 1024"),
    "stop": ({"stop": ""}, "stop = '': should have from 1 to 200 characters"),
    "stops": ({"stop": ["a"] * 17}, "stop: has 17 strings; should have at most 16"),
    "stop type": ({"stop": ["a", 1]}, "stop: should be a string or a list of strings"),
    "logit_bias": ({"logit_bias": {"x": 1}}, "logit_bias = 'x': should be a token from 0 to 319"),
    "bias": ({"logit_bias": {"5": 101}}, "logit_bias = 101: should be a number from -100 to 100"),
    "a bias twice": ({"logit_bias": {"05": 1}}, "logit_bias = '05': should be a token from 0 to"),
    "logprobs": ({"logprobs": 11}, "logprobs: should be less than or equal to 10"),
    "best_of": ({"best_of": 1, "n": 2}, "best_of = 1: should be at least n, which is 2"),
    "suffix": ({"suffix": "x"}, "suffix: should be ''"),
    "unknown": ({"temprature": 1}, "temprature: unknown field"),
    "options": ({"stream_options": {}}, "stream_options: has an effect only with stream"),
    "an option": ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x: unknown field"),
    "more than fits": ({"n": 47}, "the request has 47 parts; should have at most 46"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_fields(name, server):
    fields, message = MESSAGES[name]
    assert server.refused("/v1/completions", {**FINE, **fields}).startswith(message)


def test_long_values_are_cut(server):
    found = server.refused("/v1/completions", {**FINE, "stop": "x" * 10_000})
    assert len(found) < 200
    assert len(server.refused("/v1/completions", {**FINE, "k" * 10_000: 1})) < 200


def test_long_prompts(server):
    found = server.refused("/v1/completions", {"prompt": [3] * 4097})
    assert found == "prompt: should have at most 4096 tokens"
    assert server.refused("/v1/completions", {"prompt": "a b" * 200_000}) == found
    server.complete(prompt=[3] * 4096, max_tokens=1)
    # Probabilities of a prompt's tokens are those within one context.
    described = {"max_tokens": 0, "echo": True, "logprobs": 0}
    found = server.refused("/v1/completions", {"prompt": [3] * 17, **described})
    assert found == "prompt: should have at most 16 tokens"
    server.complete(prompt=[3] * 16, **described)


def test_bodies(server):
    def refused(body: bytes, status: int = 400, **options) -> str:
        return server.refused("/v1/completions", body, status, method="POST", **options)

    assert refused(b"") == refused(b"{") == refused(b"\xff") == "the body should be valid JSON"
    assert refused(b"[" * 100_000) == "the body should be valid JSON"
    assert refused(b"[]") == refused(b"null") == "the body should be a JSON object"
    assert refused(b'{"seed": ' + b"9" * 4000 + b"}").startswith("seed: should be")
    assert refused(b'{"seed": ' + b"9" * 10_000 + b"}") == "the body should be valid JSON"
    assert refused(b'{"temperature": NaN}') == "the body should be valid JSON"
    assert refused(b'{"temperature": 1e999}').startswith("temperature: should be a finite number")
    assert refused(b"x" * (2**20 + 1), 413) == "the body should have at most 1048576 bytes"
    plain = {"Content-Type": "text/plain"}
    assert refused(b"{}", 415, headers=plain) == "Content-Type: should be application/json"


def test_paths_and_methods(server):
    assert server.refused("/v1/nothing", None, 404) == "there is no such endpoint"
    assert server.refused("/../../etc/passwd", None, 404) == "there is no such endpoint"
    assert server.refused("/v1/completions", None, 405) == "the method is not allowed here"
    assert server.refused("/healthz", {}, 405) == "the method is not allowed here"
    assert server.refused("/healthz/", None, 404) == "there is no such endpoint"


def test_other_hosts(server):
    """A web page whose name resolves to this machine (DNS rebinding) is not answered."""
    found = server.refused("/v1/models", None, 403, headers={"Host": "evil.example"})
    assert found == "the host is not one that this server answers for"
    for name in (f"localhost:{server.port}", "127.0.0.1", "[::1]:80", "LOCALHOST"):
        assert server.ask("/v1/models", headers={"Host": name})[0] == 200


@pytest.mark.parametrize(
    "item, path", [(b"{}", "prompt"), (b"1", "stop"), (b'"a",1', "prompt"), (b"[{}]", "prompt")]
)
def test_large_malformed_bodies(item, path, server):
    """They neither take seconds nor stop other requests."""
    count = (2**20 - 100) // (len(item) + 1)
    body = b'{"%s": [' % path.encode() + b",".join([item] * count) + b"]}"
    began = time.monotonic()
    assert server.refused("/v1/completions", body).startswith(f"{path}: should be")
    names = b"{" + b",".join(b'"%d": 1' % i for i in range(90_000)) + b"}"
    first = ", ".join(map(str, range(16)))
    assert server.refused("/v1/completions", names) == f"{first}, ...: unknown fields"
    biases = b'{"logit_bias": ' + names + b"}"
    assert server.refused("/v1/completions", biases).startswith("logit_bias = ")
    assert time.monotonic() - began < 20  # It took minutes when each mistake was reported.


def test_malformed_requests(server, tally):
    """10,000 of them: 4xx each, and the server goes on."""
    draw, count = random.Random(0), 10_000
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
