"""The other endpoints: models, the page."""

import contextlib
import http.client
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

TEXTS = ["Ana sat on the roof.", "Dirk ate 3 figs.", "Ana sat on the roof"]


def test_models(client, server):
    assert [found.id for found in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "minigpt"
    assert "tiny" in server.refused("/v1/models/other", None, 404)["message"]


def asked(server, condition=""):
    """Returns status, headers and body of the page."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
    with contextlib.closing(connection):
        connection.request("GET", "/", headers={"If-None-Match": condition})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def test_the_page(server):
    status, headers, page = asked(server)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Cache-Control"] == "no-cache" and len(page) == int(headers["Content-Length"])
    assert headers["Server"] is None  # Which program answers is nobody's business.
    assert page.startswith(b"<!doctype html>") and b"<title>tiny" in page
    # A page that the client has is not sent again.
    for condition, expected in ((headers["ETag"], (304, b"")), ('"other"', (200, page))):
        status, again, body = asked(server, condition)
        assert (status, body) == expected and again["ETag"] == headers["ETag"]


def test_the_application_of_the_documentation(tiny_run, model, monkeypatch):
    """docs/server.md: a program that opens the portable file, also for several requests at once."""
    page = Path("docs/server.md").read_text(encoding="utf-8")
    code = re.search(r"`application\.py`.*?```python\n(.*?)```", page, re.S)
    monkeypatch.chdir(tiny_run.path)
    monkeypatch.setattr(random, "randrange", lambda end: 3)
    names: dict[str, Any] = {}
    exec(code[1], names)
    client = TestClient(names["app"])
    with ThreadPoolExecutor(3) as pool:
        prompts = TEXTS * 2
        answers = pool.map(lambda text: client.get("/continue", params={"prompt": text}), prompts)
        found = [answer.text for answer in answers]
    assert found == [model.generate(text, max_new_tokens=40, seed=3)[0] for text in prompts]
