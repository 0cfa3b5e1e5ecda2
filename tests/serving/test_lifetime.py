"""Starting and stopping a server, keys, full queues, and clients that go away."""

import base64
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from minigpt.config import MAX_NEW_TOKENS
from minigpt.environment import install_command
from tests.cli.running import called
from tests.serving.running import changed, sent, serving

# A text of this length takes many minutes.
ENDLESS = ("--max-tokens", str(MAX_NEW_TOKENS))


@pytest.fixture(scope="module")
def small_server(tiny_run):
    """One slot, and one place in the queue."""
    options = ("--threads", "1", "--slots", "1", "--queue", "1", "--name", "small")
    with serving(
        tiny_run.path / "model.gguf", *options, *ENDLESS, MINIGPT_API_KEY="secret"
    ) as served:
        yield served


KEY = {"Authorization": "Bearer secret"}


def long_text(model, tokens: int = MAX_NEW_TOKENS) -> dict:
    """A request for a text with exactly this number of tokens: the end token is banned."""
    bias = {str(model.tokenizer.end_id): -100}
    return {"prompt": "Ana", "max_tokens": tokens, "logit_bias": bias}


def wait_until(condition) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_key(small_server):
    small_server.refused("/v1/models", None, 401)
    for header in ("Bearer wrong", "Bearer ", "Basic !", "secret", "Bearer sécret"):
        headers = {"Authorization": header.encode().decode("latin-1")}
        small_server.refused("/v1/models", None, 401, headers=headers)
        small_server.refused("/", None, 401, headers=headers)
    assert small_server.ask("/healthz")[0] == 200
    assert json.loads(small_server.ask("/v1/models", headers=KEY)[1])["data"][0]["id"] == "small"
    connection = http.client.HTTPConnection(small_server.host, small_server.port)
    with contextlib.closing(connection):
        # Part of the body is not read: it would be taken for the next request.
        connection.request("POST", "/v1/completions", b"{}", {"Content-Type": "application/json"})
        refused = connection.getresponse()
    assert refused.headers["Connection"] == "close"
    # In a browser, which then asks for it, the key is the password.
    assert refused.headers["WWW-Authenticate"] == 'Basic realm="minigpt"'
    basic = base64.b64encode(b"anybody:secret").decode()
    assert small_server.ask("/", headers={"Authorization": f"Basic {basic}"})[0] == 200


def test_a_full_queue_and_clients_that_go_away(small_server, model):
    """A client that goes away ends its text, whether it runs or waits, streams or not."""
    fields = long_text(model)
    for stream in (False, True):
        clients = []
        for number in range(2):
            head = "POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer secret"
            clients.append(sent(small_server, head, {**fields, "stream": stream}))
            name = ("running", "waiting")[number]
            wait_until(lambda name=name: small_server.texts(name) == 1)
        small_server.refused("/v1/completions", fields, 429, headers=KEY)
        clients[1].close()
        wait_until(lambda: small_server.texts("waiting") == 0)
        assert small_server.texts("running") == 1
        clients[0].close()
        wait_until(lambda: small_server.texts("running") == 0)
    status, _ = small_server.ask("/v1/completions", {"prompt": "A", "max_tokens": 1}, headers=KEY)
    assert status == 200


def test_a_signal_finishes_what_runs(tiny_run, model):
    fields = {**long_text(model, 10_000), "seed": 1}
    with serving(tiny_run.path, "--threads", "1", "--max-tokens", "10000") as served:
        answers = []
        asking = [
            threading.Thread(target=lambda: answers.append(served.complete(**fields)))
            for _ in range(2)
        ]
        for thread in asking:
            thread.start()
        wait_until(lambda: served.texts("running") == 2)
        began = time.monotonic()
        served.process.terminate()
        assert served.process.wait(20) == 0
        for thread in asking:
            thread.join()
        assert time.monotonic() - began < 20
    assert len(answers) == 2
    for answer in answers:
        assert answer["usage"]["completion_tokens"] == 10_000
    assert not any("Traceback" in line for line in served.lines)


def test_what_takes_too_long_is_cut_off(tiny_run, model, monkeypatch):
    """The grace period is shorter here."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    program = changed(_GRACE_SECONDS=1)
    with serving(tiny_run.path, "--threads", "1", *ENDLESS, program=program) as served:
        errors = []
        fields = {**long_text(model), "n": 16}

        def ask() -> None:
            errors.append(served.refused("/v1/completions", fields, 503))

        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: served.texts("running") == 16)
        began = time.monotonic()
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(20) == 0
        assert time.monotonic() - began < 10
        thread.join()
    assert len(errors) == 1
    assert not any("Traceback" in line for line in served.lines)


def test_an_engine_that_has_stopped(tiny_run):
    program = (
        "import sys; from minigpt.serving.scheduler import Scheduler\n"
        "take = Scheduler.take\n"
        "def failing(self, *arguments, **options):\n"
        "    take(self, *arguments, **options); raise RuntimeError('a bug')\n"
        "Scheduler.take = failing\n"
        "from minigpt.__main__ import main; main()"
    )
    with serving(tiny_run.path, "--threads", "1", program=program) as served:
        assert served.ask("/healthz")[0] == 200
        with contextlib.suppress(TimeoutError):
            served.ask("/v1/completions", {"prompt": "a"}, timeout=1)
        assert served.ask("/healthz")[0] == 503


def test_other_addresses(tiny_run):
    """Names are checked where only this machine reaches the server, or if the user says so."""
    with serving(tiny_run.path, "--host", "127.0.0.2", "--allow-host", "Mine.example") as served:
        for name, status in (("evil.example", 403), ("mine.example", 200), ("127.0.0.2", 200)):
            assert served.ask("/healthz", headers={"Host": name})[0] == status
    with serving(tiny_run.path, "--host", "0.0.0.0") as served:
        assert "has no --api-key" in served.lines[0]
        assert served.ask("/healthz", headers={"Host": "any.example"})[0] == 200


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--host", "nothing.invalid"), "--host nothing.invalid"),
        # An address of documentation (RFC 5737): no machine has it.
        (("--host", "192.0.2.1"), "--host 192.0.2.1"),
        (("--api-key", ""), "--api-key"),
        (("--api-key", "a b"), "--api-key"),
        (("--api-key", "schlüssel"), "--api-key"),
    ],
)
def test_options_that_cannot_be_used(options, named, tiny_run):
    check_refused(named, tiny_run.path / "model.gguf", "--port", 0, *options)


def test_what_cannot_be_served(tiny_run, server, tmp_path, monkeypatch):
    (tmp_path / "no.gguf").write_bytes(b"GGUF")
    for path in ("no.gguf", "nothing"):
        check_refused(path, tmp_path / path, "--port", 0)
    check_refused(f"--port {server.port}", tiny_run.path, "--port", server.port)
    monkeypatch.setattr("minigpt.cli.serve.find_spec", lambda name: None)
    check_refused(install_command("serve"), tiny_run.path)


def check_refused(named: str, *arguments) -> None:
    done = called("serve", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert named in done.stderr


def test_tensorflow_is_not_imported(tiny_run):
    program = (
        "import sys; from minigpt.serving import application; from minigpt.cli import serve\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
