"""Arguments of `TextModel` and `load`: what is accepted, and one clear exception for the rest."""

import logging

import numpy as np
import pytest

import minigpt
from minigpt.errors import UserError
from minigpt.generation import sampler
from minigpt.generation.base_models import Sample, whole_sentences
from minigpt.models import GPT


@pytest.fixture
def opened(opened_without_xla):
    return opened_without_xla


@pytest.mark.parametrize(
    ("method", "arguments", "named"),
    [
        *(
            ("generate", {"prompts": wrong}, "prompts")
            for wrong in (5, None, ["Ana", None], b"Ana")
        ),
        *(("generate", {"seed": wrong}, "seed") for wrong in (1.5, "1", [1, None])),
        ("generate", {"num_samples": 2.0}, "num_samples"),
        ("stream", {"prompt": ["Ana"]}, "prompt"),
        ("log_probabilities", {"text": ["Ana"]}, "text"),
        ("embed", {"texts": [5]}, "texts"),
        ("evaluate", {"texts": [5]}, "texts"),
    ],
)
def test_a_wrong_type_is_named(opened, method, arguments, named):
    with pytest.raises(TypeError, match=f"`{named}`"):
        getattr(opened, method)(**arguments)


def test_without_a_seed_texts_differ_and_a_message_has_the_seed(opened, caplog):
    caplog.set_level(logging.INFO, "minigpt")
    how = {"temperature": 2.0, "top_k": 0}
    texts = [opened.generate("Ana", 12, **how)[0] for _ in range(4)]
    texts.append("".join(opened.stream("Ana", 12, **how)))
    assert len(set(texts)) > 3
    seeds = [int(message.removeprefix("seed ")) for message in caplog.messages]
    assert [opened.generate("Ana", 12, seed=seed, **how)[0] for seed in seeds] == texts
    first, second = opened.samples(["Ana", "Dirk"], 12)
    assert first.seed == second.seed
    caplog.clear()
    for greedy in ({"temperature": 0}, {"top_k": 1}):
        assert opened.samples("Ana", 12, **greedy)[0].seed == 0 and not caplog.messages


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("He sat. She ate 3.5 figs! Then sh", "He sat. She ate 3.5 figs!"),
        ('"Go," he said. "I go." And', '"Go," he said. "I go."'),
        ("no sentence ends he", "no sentence ends he"),
        ("他坐下。她吃", "他坐下。"),
        ("¿Y él? Sí", "¿Y él?"),
    ],
)
def test_a_text_that_was_cut_ends_with_its_last_sentence(text, whole):
    assert whole_sentences(Sample("", text, 0, [1] * 9), 9) == whole
    # It ended by itself.
    assert whole_sentences(Sample("", text, 0, [1] * 8), 9) == text


def test_seeds_may_be_an_array(opened):
    found = opened.samples(["Ana", "Ana"], 5, seed=np.array([1, 2]))
    assert [sample.seed for sample in found] == [1, 2]
    assert opened.samples("Ana", 5, seed=np.array([1]))[0].seed == 1
    assert all(type(sample.seed) is int for sample in found)
    with pytest.raises(TypeError, match="`seed`"):
        opened.samples("Ana", seed=np.array([1, 2]))
    with pytest.raises(TypeError, match="`seed`"):
        opened.samples(["Ana", "Ana"], seed=np.array([[1, 2]]))


@pytest.mark.parametrize("run", [None, 5, b"runs"])
def test_load_takes_a_run_or_a_path(run):
    with pytest.raises(TypeError, match="`run`"):
        minigpt.load(run)


@pytest.mark.parametrize("method", ["logits", "latents"])
def test_token_ids_are_integers_of_the_vocabulary(opened, method):
    call = getattr(opened, method)
    assert call([[5, 6, 7]]).shape[:2] == (1, 3)
    for wrong in ([[5.0, 6.0]], [5, 6], np.zeros((1, 17), int), [[5, -1]], [[5, 320]], [[2**40]]):
        with pytest.raises(ValueError, match="`token_ids`"):
            call(wrong)


def test_batches_give_the_samples_of_one_batch(opened, monkeypatch):
    """Whatever fits into memory together."""
    arguments = {"num_samples": 3, "seed": [3, 9], "stop": ["figs"], "top_k": 0}
    expected = opened.samples(["Ana", "Béla"], 12, **arguments)
    sizes = []
    draw_batch = sampler.Sampler._draw_batch

    def recording(self, rows):
        sizes.append(len(rows))
        return draw_batch(self, rows)

    monkeypatch.setattr(sampler.Sampler, "_draw_batch", recording)
    row_bytes = opened._decoder.model.row_bytes(50)
    monkeypatch.setattr(sampler, "machine_bytes", lambda: 4 * row_bytes)
    monkeypatch.setattr(sampler, "MEMORY_SHARE", 1.0)
    assert opened.samples(["Ana", "Béla"], 12, **arguments) == expected
    assert sizes == [4, 2]


def test_samples_are_generated_as_they_are_taken(opened, monkeypatch):
    monkeypatch.setattr(sampler, "machine_bytes", lambda: 10**6)
    found = opened.iter_samples("Ana", 5, seed=0, num_samples=1_000_000)
    assert [next(found).seed for _ in range(3)] == [0, 1, 2]


def test_one_sample_that_does_not_fit_is_one_line(opened, monkeypatch):
    monkeypatch.setattr(sampler, "machine_bytes", lambda: 1000)
    with pytest.raises(UserError, match=r"one sample needs .*; this machine has") as refused:
        opened.samples("Ana", num_samples=2)
    assert len(refused.value.problems) == 1


def test_memory_that_runs_out_is_one_line(opened, monkeypatch):
    import tensorflow as tf

    def exhausted(*arguments):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor\nmore")

    monkeypatch.setattr(sampler.Sampler, "_draw_batch", exhausted)
    with pytest.raises(UserError, match="needs more memory; this machine has") as refused:
        opened.samples("Ana")
    assert "\n" not in str(refused.value)


def test_the_model_is_traced_once_for_all_evaluated_texts(opened, monkeypatch):
    calls = []
    call = GPT.call
    monkeypatch.setattr(
        GPT, "call", lambda *args, **kwargs: calls.append(1) or call(*args, **kwargs)
    )
    first = opened.evaluate("Ana sat.")
    traced = len(calls)
    longer = opened.evaluate(["Ana sat.", "Ana sat on the roof and ate figs."])
    again = opened.evaluate("Ana sat.")
    assert len(calls) == traced and again == first != longer
