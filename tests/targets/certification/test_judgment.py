"""Greedy texts judged by logits: the same result as generating them."""

import numpy as np
import pytest

import minigpt
from minigpt.targets.certification import comparison
from minigpt.targets.certification.certificate import certify
from minigpt.targets.certification.judgment import judge_continuations
from minigpt.targets.certification.readers.text_model import OpenedModel
from tests.targets.certification.test_certificates import SMALL

PROMPTS = ["Ana sat", "Dirk", "", "Béla sat on the roof and"]


@pytest.fixture(scope="module")
def opened(tiny_run):
    return OpenedModel(tiny_run.load_model(), tiny_run.load_tokenizer())


def judge(opened, prompts, texts, new_tokens=5):
    end_id = opened._tokenizer.end_id
    return judge_continuations(opened, prompts, texts, end_id, new_tokens, max_len=16)


def test_texts_that_the_source_generates(opened):
    texts = opened.continue_greedily(PROMPTS, 5)
    for is_greedy, gap in judge(opened, PROMPTS, texts):
        assert is_greedy and gap == 0


def test_texts_that_it_does_not_generate(opened):
    texts = opened.continue_greedily(PROMPTS, 5)
    changed = [text[:-1] for text in texts] + [text + "." for text in texts]
    judged = judge(opened, PROMPTS * 2, changed)
    assert not any(is_greedy for is_greedy, _ in judged)
    assert all(gap > 0 for _, gap in judged[: len(texts)])
    # Beyond the context nothing is judged, and nothing fails.
    (long,) = judge(opened, ["Ana sat"], [" on the roof" * 20])
    assert not long.is_greedy


def test_logits_are_the_same_in_a_batch(opened, monkeypatch):
    texts = [opened.encode([prompt])[0] or [0] for prompt in PROMPTS]
    alone = [opened.logits(np.array(ids, "int32")) for ids in texts]
    for size in (2**27, 1):  # All at once, and one at a time.
        monkeypatch.setattr("minigpt.targets.certification.readers.text_model._BATCH_BYTES", size)
        together = opened.all_logits([np.array(ids, "int32") for ids in texts], [None] * len(texts))
        for one, other in zip(alone, together, strict=True):
            assert one.shape == other.shape and abs(one - other).max() < 1e-5


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_the_certificate_is_that_of_generated_texts(tiny_run, tmp_path, monkeypatch, weights):
    for name, value in SMALL.items():
        monkeypatch.setattr(f"minigpt.targets.certification.material.{name}", value)
    file = tmp_path / "a.gguf"
    minigpt.export_run(tiny_run, "gguf", file, weights=weights)
    generated = []
    original = OpenedModel.continue_greedily

    def counted(self, prompts, *arguments):
        generated.extend(prompts)
        return original(self, prompts, *arguments)

    monkeypatch.setattr(OpenedModel, "continue_greedily", counted)
    quick = certify(file, tiny_run, "gguf")
    prompts = quick["greedy"]["prompts"]
    assert len(generated) == (
        0 if weights == "float32" else prompts - quick["greedy"]["same_texts"]
    )

    def unsure(*arguments):
        return [each._replace(is_greedy=False) for each in judge_continuations(*arguments)]

    monkeypatch.setattr(comparison, "judge_continuations", unsure)
    generated.clear()
    assert certify(file, tiny_run, "gguf")["greedy"] == quick["greedy"]
    assert len(generated) == prompts
