"""Greedy texts judged by logits: the same result as generating them."""

from types import SimpleNamespace

import numpy as np
import pytest

from minigpt.targets import comparison, opened_keras

PROMPTS = ["Ana sat", "Dirk", "", "Béla sat on the roof and"]


@pytest.fixture(scope="module")
def opened(tiny_run):
    return opened_keras.opened_keras(tiny_run.load_model(), tiny_run.load_tokenizer())


def test_texts_are_judged_as_they_are_generated(tiny_run, opened):
    material = SimpleNamespace(end_id=tiny_run.load_tokenizer().end_id, start_id=None)
    material.new_tokens, material.max_len = 5, 16

    def judge(prompts, texts):
        material.prompts = prompts
        return comparison.judge(opened, material, texts)

    texts = opened.continue_greedily(PROMPTS, 5)
    assert judge(PROMPTS, texts) == [(True, 0.0)] * len(PROMPTS)
    changed = [text[:-1] for text in texts] + [text + "." for text in texts]
    judged = judge(PROMPTS * 2, changed)
    assert not any(is_greedy for is_greedy, _ in judged)
    assert all(gap > 0 for _, gap in judged[: len(texts)])
    # Beyond the context nothing is judged, and nothing fails.
    ((is_greedy, _),) = judge(["Ana sat"], [" on the roof" * 20])
    assert not is_greedy


def test_logits_are_the_same_in_a_batch(opened, monkeypatch):
    texts = [np.array(opened.encode([prompt])[0] or [0], "int32") for prompt in PROMPTS]
    alone = [next(opened.logits([ids], [None])) for ids in texts]
    for size in (2**27, 1):  # All at once, and one at a time.
        monkeypatch.setattr(opened_keras, "_BATCH_BYTES", size)
        together = opened.logits(texts, [None] * len(texts))
        for one, other in zip(alone, together, strict=True):
            assert one.shape == other.shape and abs(one - other).max() < 1e-5
