"""The plan of a training run: it agrees with what training records, and leaves no files."""

import json
from types import SimpleNamespace

import pytest
import tensorflow as tf

import minigpt
from minigpt.config import Config
from minigpt.insight import plan
from minigpt.models import build_model
from minigpt.models.memory_estimate import training_bytes
from minigpt.training import pipeline
from minigpt.training.strategy import Strategy, training_seconds, xla_pays
from tests.cli.running import SMALL, called, refused
from tests.conftest import tiny_settings, tiny_text


@pytest.fixture(autouse=True)
def known_speed(monkeypatch):
    for module in (pipeline, plan):
        monkeypatch.setattr(module, "probe_speed", lambda training: (1e6, 0))


def test_it_agrees_with_what_the_training_records(tiny_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = minigpt.plan(tiny_run.config).as_dict()
    facts, config = tiny_run.facts, tiny_run.config
    assert list(tmp_path.iterdir()) == []
    assert json.loads(json.dumps(values)) == values
    parts = {key: value for key, value in values["parameters"].items() if key != "total"}
    assert sum(parts.values()) == values["parameters"]["total"] == facts["parameters"]
    # The committed run was split into documents only: the difference is part of one.
    tokens = values["tokens"]
    assert tokens["train_tokens"] == pytest.approx(facts["train_tokens"], rel=0.01)
    assert tokens["train_tokens"] + tokens["val_tokens"] == pytest.approx(
        facts["train_tokens"] + facts["val_tokens"], abs=2
    )
    assert values["text"]["train_bytes"] == pytest.approx(facts["train_bytes"], rel=0.01)
    assert values["model"] == config.model.model_dump()
    training = config.training
    steps = training.epochs * training.steps_per_epoch
    assert values["training"]["tokens"] == steps * training.batch_size * config.model.max_len
    assert values["memory_bytes"] == sum(training_bytes(config, values["tokens"]["vocab_size"]))
    assert values["seconds"] > 0 and values["origins"]["training.epochs"] == "given"


def test_of_pairs(pair_run):
    values = minigpt.plan(pair_run.config).as_dict()
    assert values["parameters"]["total"] == pair_run.facts["parameters"]
    assert values["training"]["sequence_length"] is None and values["seconds"] > 0


def test_accumulated_batches_and_a_time_limit(tiny_file):
    training = {"accumulate_steps": 3, "steps_per_epoch": 5000, "max_minutes": 0.5}
    found = minigpt.plan(tiny_settings(tiny_file, training=training))
    values = found.as_dict()
    assert values["training"]["tokens"] == 2 * 5000 * 3 * 8 * 16
    assert values["training"]["passes"] == pytest.approx(
        values["training"]["tokens"] / values["tokens"]["train_tokens"], rel=0.05
    )
    assert values["seconds"] == 30 and "at most 0.5 min" in found.in_words()


def test_commands(tmp_path):
    (tmp_path / "book.txt").write_text(tiny_text(), encoding="utf-8")
    train = ("train", "--text", "book.txt", *SMALL, "--plan")
    done = called(*train, "--json", cwd=tmp_path)
    (line,) = done.stdout.splitlines()
    (path,) = json.loads(line)["text"]["paths"]
    assert path.endswith("book.txt") and "Chosen for" in done.stderr
    size = json.loads(line)["tokens"]["vocab_size"]
    assert f"tokenizer.vocab_size = {size}" in done.stderr
    words = called(*train, cwd=tmp_path).stdout
    assert f"vocabulary of {size:,}" in words
    for subject in ("Device", "Model", "Training", "Memory"):
        assert f"\n{subject} " in words
    assert [path.name for path in tmp_path.iterdir()] == ["book.txt"]
    for options in (["--json"], ["--plan", "--resume", "run"], ["--plan", "--set", "a.b=2"]):
        (line,) = refused("train", *options, cwd=tmp_path)
        assert options[-2 if len(options) > 1 else 0] in line


@pytest.mark.parametrize("tied", [False, True])
def test_a_gpt_multiplies_each_token_with_every_matrix_once(tied):
    sizes = {"max_len": 16, "embed_dim": 32, "num_heads": 4, "num_layers": 3}
    training = {"epochs": 2, "steps_per_epoch": 7, "accumulate_steps": 3}
    config = Config.model_validate(
        {"model": {**sizes, "tie_embeddings": tied}, "training": training}
    )
    model = build_model(config.model, 50)
    in_blocks = [w for block in model.blocks for w in block.trainable_weights if len(w.shape) == 2]
    multiplied = sum(w.shape[0] * w.shape[1] for w in in_blocks) + 50 * 32
    val = SimpleNamespace(tokens=300)
    corpus = SimpleNamespace(val=val, tokenizer=SimpleNamespace(vocab_size=50))
    task = SimpleNamespace(config=config, tokens_per_batch=50, corpus=corpus)
    # Forward, and back for each of the two factors; an evaluation is the first third.
    expected = multiplied * (2 * 7 * 3 * 50 + 2 * 300 / 3)
    assert training_seconds(task, 1e6) == pytest.approx(expected / 1e6)
    # With R-Drop, the logits of 16 tokens in each row, three times.
    state, batch = training_bytes(config, 50)
    logits = 3 * 4 * config.training.batch_size * 16 * 50
    r_drop = config.with_training(r_drop=1.0)
    assert training_bytes(r_drop, 50) == (state, batch + logits)


@pytest.mark.parametrize(
    ("steps", "minutes", "pays"), [(100, None, False), (2000, None, True), (2000, 0.5, False)]
)
def test_a_short_training_is_not_compiled_with_xla(steps, minutes, pays):
    training = {"epochs": 1, "steps_per_epoch": steps, "max_minutes": minutes}
    sizes = {"max_len": 256, "embed_dim": 256, "num_heads": 4, "num_layers": 5}
    config = Config.model_validate({"model": sizes, "training": training})
    val, tokenizer = SimpleNamespace(tokens=1000), SimpleNamespace(vocab_size=4096)
    corpus = SimpleNamespace(val=val, tokenizer=tokenizer)
    task = SimpleNamespace(config=config, tokens_per_batch=4 * 256, corpus=corpus)
    assert xla_pays(task) == pays


@pytest.mark.parametrize(
    ("uses_xla", "compiled", "disabled"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_graphs_of_a_short_training_are_not_optimized(uses_xla, compiled, disabled):
    """A deterministic training is the same, however many steps it has."""
    before = tf.config.optimizer.get_experimental_options()
    model = SimpleNamespace(jit_compile=compiled, train_step=lambda: None)
    training, task = SimpleNamespace(uses_xla=uses_xla), SimpleNamespace(batch_signature=None)
    with Strategy().computing(SimpleNamespace(model=model, training=training, task=task)):
        during = tf.config.optimizer.get_experimental_options()
        assert during["disable_meta_optimizer"] == disabled
    assert tf.config.optimizer.get_experimental_options() == before
