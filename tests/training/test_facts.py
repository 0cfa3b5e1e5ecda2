"""The facts that a run records before its first step."""

import math

import numpy as np
import pytest

import minigpt
from minigpt.corpus.token_store import open_corpus
from minigpt.models.lora import count_merged
from minigpt.training.messages import summary
from minigpt.training.strategy import Strategy
from minigpt.training.tasks import build_task
from tests.conftest import tiny_settings


def test_of_a_text(tiny_run, opened):
    facts, config = tiny_run.facts, tiny_run.config
    assert list(facts) == [
        "parameters",
        "baselines",
        "train_bytes",
        "train_tokens",
        "val_tokens",
        "device",
        "text",
    ]
    assert facts["parameters"] == opened.model.count_params() == count_merged(opened.model)
    corpus = open_corpus(config.data, config.tokenizer)
    train, val = (np.asarray(part.ids, "int64")[1:] for part in (corpus.train, corpus.val))
    assert facts["train_bytes"] == len(opened.tokenizer.decode(train).encode())
    assert facts["train_tokens"] == len(train) and facts["val_tokens"] == len(val)
    assert facts["baselines"]["uniform"] == pytest.approx(math.log(320))
    counts = np.bincount(train, minlength=320) + 1
    unigram = -np.log(counts[val] / counts.sum()).mean()
    assert facts["baselines"]["unigram"] == pytest.approx(unigram)


def test_of_pairs(pair_run):
    facts = pair_run.facts
    assert facts["parameters"] == pair_run.load_model().count_params()
    assert facts["text"].startswith("3,800 pairs for training, 200 held out")
    assert facts["baselines"]["unigram"] < facts["baselines"]["uniform"]


def test_they_are_those_of_the_summary(tiny_run, monkeypatch):
    """And the baselines are computed once for both."""
    from minigpt.training.pipeline import run_facts
    from minigpt.training.tasks import language_modeling

    calls = []
    original = language_modeling.baselines

    def counting(*arguments):
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(language_modeling, "baselines", counting)
    config = tiny_run.config
    task = build_task(config, open_corpus(config.data, config.tokenizer))
    model = tiny_run.load_model()
    Strategy().compile(task, model)
    device = Strategy().set_up(config.training)
    shown = summary(task, model, device)
    assert "GPU" not in shown
    monkeypatch.setattr("minigpt.training.strategy.why_no_gpu", lambda: "No CUDA.")
    assert f"Device      {device}\nGPU         not used: No CUDA.\nText " in summary(
        task, model, device
    )
    facts = run_facts(task, model, device)
    assert len(calls) == 1
    assert f"Device      {facts.device}\n" in shown
    assert f"Text        {facts.text}\n" in shown
    assert (
        f"Tokens      {facts.train_tokens:,} for training, {facts.val_tokens:,} held out; " in shown
    )
    assert f"Model       {facts.parameters:,} parameters" in shown
    uniform, unigram = facts.baselines.uniform, facts.baselines.unigram
    assert f"uniform {uniform:.3f} (" in shown and f", unigram {unigram:.3f} (" in shown
    assert facts.model_dump() == tiny_run.facts


def test_they_are_not_changed_when_training_is_extended(tiny_file, tmp_path, no_export):
    short = {"epochs": 1, "steps_per_epoch": 2}
    settings = tiny_settings(tiny_file, training=short, sampling={"prompts": []})
    run = minigpt.train(settings, tmp_path / "run")
    before = run.facts_file.stat()
    minigpt.resume(run, ["training.epochs=2"])
    assert run.facts_file.stat().st_ino == before.st_ino
    run.facts_file.write_text("{")
    minigpt.resume(run)
    assert run.facts["parameters"] == run.load_model().count_params()
