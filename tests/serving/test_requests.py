"""Requests that cannot be used: a status, the field and one line each, and nothing of the server in it."""

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
    ({"echo": True}, "echo"),
    ({"prompt": "\ud800"}, None),
    ({"temperature": "hot"}, "temperature"),
    ({"top_k": 1.5}, "top_k"),
    ({"n": 100, "prompt": ["a", "b"]}, "n"),
    ({"n": 47}, None),  # More than the slots and the queue hold.
    ({"max_tokens": 1025}, "max_tokens"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"stop": "x" * 10_000}, "stop"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"logit_bias": {"05": 1}}, "logit_bias"),
    ({"logit_bias": {"320": 1}}, "logit_bias"),
    ({"logit_bias": {"5": 101}}, "logit_bias"),
    ({"logprobs": 11}, "logprobs"),
    ({"suffix": "x"}, "suffix"),
    ({"seed": 2**63}, "seed"),
    ({"temprature": 1}, "temprature"),
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
    server.complete(prompt=[3] * 16, max_tokens=1, logprobs=10)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff", 400),
        (b"[" * 100_000, 400),
        (b"[]", 400),
        (b'{"seed": ' + b"9" * 4000 + b"}", 400),
        (b'{"seed": ' + b"9" * 10_000 + b"}", 400),
        (b'{"temperature": NaN}', 400),
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
