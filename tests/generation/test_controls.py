"""Logits processors, logit bias, embeddings, log-probabilities: in TensorFlow and in the engine."""

import itertools
import math
import threading

import numpy as np
import pytest

import minigpt
from minigpt.errors import UserError
from minigpt.generation.controls import LogitsProcessor

TEXT = (
    "Ana sat on the hill and ate 4 figs.\nBéla sat on the roof and ate 9 figs, and then some more."
)


@pytest.fixture(scope="module", params=["TensorFlow", "engine"])
def model(request, tiny_run, opened_without_xla):
    is_engine = request.param == "engine"
    return minigpt.load_portable(tiny_run.portable_file) if is_engine else opened_without_xla


def test_a_processor_that_changes_nothing_gives_the_same_texts(model):
    """Several rows, an empty prompt, stop strings, texts longer than the context, streams."""
    arguments = {"seed": [3, 9], "repetition_penalty": 1.2, "top_k": 0, "stop": ["figs"]}
    expected = model.samples(["Ana", ""], 12, **arguments)
    assert model.samples(["Ana", ""], 12, **arguments, logits_processor=same) == expected
    whole = model.generate("Ana sat", 14, seed=5)[0]
    assert "".join(model.stream("Ana sat", 14, seed=5, logits_processor=same)) == whole
    assert model.generate("Ana", 0, logits_processor=same) == [""]


def same(ids, logits):
    return logits


def test_what_a_processor_gets(model):
    calls = []

    def record(ids, logits):
        calls.append((ids.tolist(), logits.copy()))
        return logits

    (sample,) = model.samples("Ana sat", 5, seed=0, logits_processor=record)
    prompt = model.tokenizer.encode("Ana sat").tolist()
    assert [ids for ids, _ in calls] == [prompt + sample.tokens[:n] for n in range(5)]
    never = list(model.tokenizer.never_sampled_ids)
    for ids, logits in calls:
        assert logits.shape == (model.vocab_size,) and logits.dtype == np.float32
        assert np.isneginf(logits[never]).all()
        kept = np.delete(np.arange(model.vocab_size), never)
        expected = model.logits([ids[-model.max_len :]])[0, -1]
        np.testing.assert_allclose(logits[kept], expected[kept], atol=1e-4)


def test_the_result_of_a_processor_decides(model):
    wanted = model.tokenizer.encode("Dirk ate").tolist()

    def dictated(ids, logits):
        return np.where(np.arange(len(logits)) == wanted[len(ids) % len(wanted)], 0, -np.inf)

    (sample,) = model.samples("", len(wanted), temperature=2.0, logits_processor=dictated)
    assert sample.text == "Dirk ate"
    # If nothing can be drawn, the text ends.
    assert model.generate("Ana", 9, logits_processor=lambda i, x: np.full_like(x, -np.inf)) == [""]
    # A banned token stays banned.
    end, banned = model.tokenizer.end_id, wanted[0]
    zeros = {"logits_processor": lambda ids, logits: np.zeros_like(logits)}
    for sample in model.samples("", 10, num_samples=3, banned_tokens=[banned], top_k=0, **zeros):
        assert not {banned, end, *model.tokenizer.never_sampled_ids} & set(sample.tokens)


class Counter(LogitsProcessor):
    """Ends each text after as many tokens as the prompt has."""

    def start(self, tokenizer, prompt_ids):
        def ending(ids, logits):
            allowed = np.arange(len(logits)) == tokenizer.end_id
            return np.where(allowed, 0, -np.inf) if len(ids) == 2 * len(prompt_ids) else logits

        return ending


def test_a_processor_with_a_state_begins_anew_for_each_text(model):
    bias = {model.tokenizer.end_id: -math.inf}
    prompts = ["Ana", "Ana sat on the hill"]
    found = model.samples(prompts, 30, num_samples=2, logits_processor=Counter())
    assert all(len(s.tokens) <= len(model.tokenizer.encode(s.prompt)) for s in found)
    lengths = [len(model.tokenizer.encode(prompt)) for prompt in prompts for _ in range(2)]
    # The bias is added before: the processor can still end the text.
    found = model.samples(prompts, 30, num_samples=2, logits_processor=Counter(), logit_bias=bias)
    assert [len(s.tokens) for s in found] == lengths


def test_a_bias_moves_the_probabilities(model):
    (on,) = model.tokenizer.encode(" on").tolist()
    assert set(model.samples("Ana", 9, logit_bias={" on": 50.0})[0].tokens) == {on}
    assert model.generate("Ana", 9, logit_bias={on: 50.0}) == [9 * " on"]
    greedy = model.samples("Ana", 9, temperature=0)[0].tokens
    assert (
        greedy[0]
        not in model.samples("Ana", 9, temperature=0, logit_bias={greedy[0]: -99})[0].tokens
    )
    assert model.generate("Ana", 9, temperature=0, logit_bias={}) == model.generate(
        "Ana", 9, temperature=0
    )
    assert "".join(model.stream("Ana", 9, logit_bias={" on": 50.0})) == 9 * " on"


def test_controls_that_cannot_be_used(model):
    for key in ("Ana sat on", 999, -1, "☃☃"):
        with pytest.raises(UserError, match="logit_bias = "):
            model.generate("Ana", logit_bias={key: 1})
    with pytest.raises(ValueError, match="logit_bias"):
        model.generate("Ana", logit_bias={" on": math.nan})
    with pytest.raises(TypeError, match="logits_processor"):
        model.generate("Ana", logits_processor=3)
    for wrong in (lambda ids, logits: logits[:-1], lambda ids, logits: logits * np.nan):
        with pytest.raises(ValueError, match="logits_processor"):
            model.generate("Ana", logits_processor=wrong)


def test_a_processor_may_use_the_model_itself(tiny_run):
    """Also another thread may, between two steps: the engine has one state."""
    model = minigpt.load_portable(tiny_run.portable_file)
    expected = model.generate(["Ana", "Béla"], 5, seed=0)
    other = threading.Thread(target=lambda: model.generate("Dirk", 15))
    other.start()
    found = model.generate(["Ana", "Béla"], 5, seed=0, logits_processor=using(model))
    other.join()
    assert found == expected


def using(model):
    def process(ids, logits):
        model.logits([ids[-3:]])
        model.generate("Dirk", 2)
        return logits

    return process


def test_log_probabilities_are_those_of_the_evaluation(model, opened_without_xla):
    """Two windows of the context, and the end token."""
    found = model.log_probabilities(TEXT)
    tokens = len(model.tokenizer.encode(TEXT))
    assert found.shape == (tokens + 1,) and found.dtype == np.float32 and tokens > model.max_len
    scores = opened_without_xla.evaluate(TEXT)
    assert scores.tokens == tokens + 1
    assert -found.sum() == pytest.approx(scores.loss * scores.tokens, rel=1e-5)
    # By the definition, for the first tokens.
    ids = [model.tokenizer.end_id, *model.tokenizer.encode("Ana sat").tolist()]
    logits = model.logits([ids])[0]
    by_hand = [x[i] - math.log(np.exp(x).sum()) for x, i in zip(logits, ids[1:], strict=False)]
    np.testing.assert_allclose(model.log_probabilities("Ana sat")[:-1], by_hand, atol=1e-5)
    assert model.log_probabilities("").shape == (1,)
    with pytest.raises(TypeError, match="`text` must be a string"):
        model.log_probabilities(["Ana"])


def test_embeddings_are_means_of_the_latents(model, opened_without_xla):
    found = model.embed(["Ana sat", TEXT])
    assert found.shape == (2, 16) and found.dtype == np.float32
    ids = model.tokenizer.encode(TEXT)
    windows = [ids[at : at + 16] for at in range(0, len(ids), 16)]
    latents = [opened_without_xla.latents(window[None])[0] for window in windows]
    np.testing.assert_allclose(found[1], np.concatenate(latents).mean(0), atol=1e-4)
    np.testing.assert_allclose(model.embed("Ana sat"), found[:1], atol=1e-6)
    for wrong in ([], ["Ana", ""]):
        with pytest.raises(UserError, match="texts: should be at least one text"):
            model.embed(wrong)
    with pytest.raises(TypeError, match="`texts` must be a string"):
        model.embed([5])


def test_the_examples_of_the_documentation(tiny_run):
    from tests.test_documentation import ROOT

    page = (ROOT / "docs/python-api.md").read_text(encoding="utf-8")
    section = page.split("### Logits processors")[1].split("**`minigpt.load_portable")[0]
    codes = [part.split("```")[0] for part in section.split("```python\n")[1:]]
    assert len(codes) == 2
    model = minigpt.load_portable(tiny_run.portable_file)
    values = {"model": model}
    for code in codes:
        exec(code, values)
    ids = model.samples("Ana", 20, logits_processor=values["no_repetition"])[0].tokens
    assert all(a != b for a, b in itertools.pairwise(ids))
