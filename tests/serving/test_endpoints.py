"""The other endpoints: embeddings, models, health, metrics, the page."""

import base64
import json

import numpy as np

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
    def refused(body):
        return server.refused("/v1/embeddings", body)

    assert refused({"input": ""}) == "input: should not contain an empty text"
    assert refused({"input": []}) == "input: has 0 texts; should have from 1 to 128"
    assert refused({}) == "input: missing"
    long = [3] * (model.max_len + 1)
    assert refused({"input": long}) == f"input: should have at most {model.max_len} tokens"
    size = model.config["model"]["embed_dim"]
    assert refused({"input": "a", "dimensions": 3}) == f"dimensions = 3: should be {size}"


def test_models(client, server):
    assert [found.id for found in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "minigpt"
    assert "should be 'tiny'" in server.refused("/v1/models/other", None, 404)


def test_health(server):
    assert server.ask("/healthz") == (200, b'{"status":"ok"}')


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


def test_the_page(server):
    status, page = server.ask("/")
    assert status == 200 and page.startswith(b"<!doctype html>")
    assert b"<title>tiny" in page and len(page) > 200_000
    assert server.ask("/")[1] == page
