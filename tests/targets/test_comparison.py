"""Greedy texts judged by logits: the same result as generating them."""

from dataclasses import replace

import numpy as np
import pytest

import minigpt
from minigpt.targets import certificate, comparison, opened_model
from minigpt.targets.certificate import certify
from tests.targets.test_certificate import SMALL

PROMPTS = ["Ana sat", "Dirk", "", "Béla sat on the roof and"]


@pytest.fixture(scope="module")
def opened(tiny_run):
    return opened_model.opened_model(tiny_run.load_model(), tiny_run.load_tokenizer())


@pytest.fixture(scope="module")
def judge(tiny_run, opened):
    end_id = tiny_run.load_tokenizer().end_id
    return lambda prompts, texts: comparison.judge(opened, prompts, texts, end_id, 5, max_len=16)


def test_texts_that_the_source_generates(opened, judge):
    texts = opened.continue_greedily(PROMPTS, 5)
    for is_greedy, gap in judge(PROMPTS, texts):
        assert is_greedy and gap == 0


def test_texts_that_it_does_not_generate(opened, judge):
    texts = opened.continue_greedily(PROMPTS, 5)
    changed = [text[:-1] for text in texts] + [text + "." for text in texts]
    judged = judge(PROMPTS * 2, changed)
    assert not any(is_greedy for is_greedy, _ in judged)
    assert all(gap > 0 for _, gap in judged[: len(texts)])
    # Beyond the context nothing is judged, and nothing fails.
    (long,) = judge(["Ana sat"], [" on the roof" * 20])
    assert not long.is_greedy


def test_logits_are_the_same_in_a_batch(opened, monkeypatch):
    texts = [opened.encode([prompt])[0] or [0] for prompt in PROMPTS]
    alone = [next(opened.logits([np.array(ids, "int32")], [None])) for ids in texts]
    for size in (2**27, 1):  # All at once, and one at a time.
        monkeypatch.setattr(opened_model, "_BATCH_BYTES", size)
        together = opened.logits([np.array(ids, "int32") for ids in texts], [None] * len(texts))
        for one, other in zip(alone, together, strict=True):
            assert one.shape == other.shape and abs(one - other).max() < 1e-5


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_the_certificate_is_that_of_generated_texts(tiny_run, tmp_path, monkeypatch, weights):
    for name, value in SMALL.items():
        monkeypatch.setattr(f"minigpt.targets.material.{name}", value)
    file = tmp_path / "a.gguf"
    minigpt.export_run(tiny_run, "gguf", file, weights=weights)
    generated = []
    original = opened_model.opened_model

    def counted(*arguments):
        opened = original(*arguments)

        def continue_greedily(prompts, new_tokens):
            generated.extend(prompts)
            return opened.continue_greedily(prompts, new_tokens)

        return replace(opened, continue_greedily=continue_greedily)

    monkeypatch.setattr(certificate, "opened_model", counted)
    quick = certify(file, tiny_run, "gguf")
    prompts = quick["greedy"]["prompts"]
    assert len(generated) == (
        0 if weights == "float32" else prompts - quick["greedy"]["same_texts"]
    )
    judge = comparison.judge

    def unsure(*arguments):
        return [each._replace(is_greedy=False) for each in judge(*arguments)]

    monkeypatch.setattr(comparison, "judge", unsure)
    generated.clear()
    assert certify(file, tiny_run, "gguf")["greedy"] == quick["greedy"]
    assert len(generated) == prompts
