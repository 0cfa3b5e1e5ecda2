"""The other endpoints: embeddings, models, health, metrics, the page."""

import base64
import contextlib
import gzip
import hashlib
import http.client
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from tests.serving.running import serving

TEXTS = ["Ana sat on the roof.", "Dirk ate 3 figs.", "Ana sat on the roof"]


def test_embeddings(client, tiny_run, opened):
    answer = client.embeddings.create(model="tiny", input=TEXTS)
    for item, text in zip(answer.data, TEXTS, strict=True):
        ids = opened.tokenizer.encode(text)
        mean = opened.latents([ids])[0].mean(0)
        np.testing.assert_allclose(item.embedding, mean / np.linalg.norm(mean), atol=1e-5)
    assert answer.usage.prompt_tokens == sum(len(opened.tokenizer.encode(text)) for text in TEXTS)


def test_forms_of_embeddings(server, model):
    ids = model.tokenizer.encode(TEXTS[0]).tolist()
    bodies = [
        {"input": TEXTS[0]},
        {"input": ids, "encoding_format": "float"},
        {"input": [ids], "encoding_format": "base64"},
    ]
    vectors = []
    for body in bodies:
        data = json.loads(server.ask("/v1/embeddings", body)[1])["data"][0]["embedding"]
        if isinstance(data, str):
            data = np.frombuffer(base64.b64decode(data), "<f4")
        vectors.append(np.array(data))
    for vector in vectors[1:]:
        np.testing.assert_allclose(vector, vectors[0], atol=1e-6)
    assert np.isclose(np.linalg.norm(vectors[0]), 1)


def test_refused_embeddings(server, model):
    long = [3] * (model.max_len + 1)
    for body in (
        {"input": ""},
        {"input": []},
        {},
        {"input": long},
        {"input": "a", "dimensions": 3},
    ):
        param = "dimensions" if "dimensions" in body else "input"
        assert server.refused("/v1/embeddings", body)["param"] == param


def test_models(client, server):
    assert [found.id for found in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "minigpt"
    assert "tiny" in server.refused("/v1/models/other", None, 404)["message"]


def test_metrics(server):
    before = {
        name: server.metric(f"minigpt_{name}_total") for name in ("new_tokens", "prompt_tokens")
    }
    first = server.metric("minigpt_first_token_seconds_count")
    usage = server.complete(prompt="Ana", max_tokens=7, n=2)["usage"]
    assert (
        server.metric("minigpt_new_tokens_total") - before["new_tokens"]
        == usage["completion_tokens"]
    )
    assert (
        server.metric("minigpt_prompt_tokens_total") - before["prompt_tokens"]
        == usage["prompt_tokens"]
    )
    assert server.metric("minigpt_first_token_seconds_count") == first + 2
    assert server.metric("minigpt_running_texts") == server.metric("minigpt_waiting_texts") == 0
    # Any number of paths can be asked for: each would be kept.
    server.ask("/v1/models/nothing-of-this-name")
    text = server.ask("/metrics")[1].decode()
    assert 'endpoint="other",status="404"' in text and "nothing-of-this" not in text
    assert 'minigpt_requests_total{endpoint="/v1/completions",status="200"}' in text


def asked(server, accepted, condition=""):
    """Returns status, headers and body of the page."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
    with contextlib.closing(connection):
        headers = {"Accept-Encoding": accepted, "If-None-Match": condition}
        connection.request("GET", "/", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def test_the_page(server):
    pages = {}
    for accepted, coding in (
        *(("br, GZIP ;q=0.5", "gzip"), ("br", None), ("", None), ("gzip; q=0.000", None)),
    ):
        status, headers, body = asked(server, accepted)
        assert (status, headers["Content-Encoding"]) == (200, coding)
        assert coding or headers["ETag"] == f'"{hashlib.sha256(body).hexdigest()}"'
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert headers["Vary"] == "Accept-Encoding" and len(body) == int(headers["Content-Length"])
        pages[coding] = body
    page = pages[None]
    assert page.startswith(b"<!doctype html>") and b"<title>tiny" in page
    assert len(pages["gzip"]) < 0.8 * len(page) and gzip.decompress(pages["gzip"]) == page


def test_a_page_that_the_client_has_is_not_sent_again(server, tiny_run):
    tags = [asked(server, accepted)[1]["ETag"] for accepted in ("gzip", "identity")]
    for accepted, tag, other in zip(("gzip", "identity"), tags, reversed(tags), strict=True):
        for condition in (tag, f'"other", W/{tag}'):
            status, headers, body = asked(server, accepted, condition)
            assert (status, headers["ETag"], body) == (304, tag, b"")
            assert headers["Cache-Control"] == "no-cache"
        assert asked(server, accepted, other)[0] == 200
    # A server that is started again has the same page.
    with serving(tiny_run.path, "--threads", "1") as second:
        assert asked(second, "gzip", tags[0])[0] == 304


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
