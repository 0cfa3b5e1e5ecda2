"""The forecast of a training run: it measures real updates, and leaves no files."""

import os
import signal
import tempfile
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import tensorflow as tf

import minigpt
from minigpt.config.fit import REFERENCE_SPEED
from minigpt.errors import UserError
from minigpt.insight.forecast import plan as planning
from minigpt.insight.forecast.measuring import Durations
from minigpt.training.start import Start
from tests.cli.running import SMALL, called, refused, started
from tests.conftest import tiny_settings, tiny_text
from tests.run_files import records

KEYS = {
    *("text", "tokens", "model", "training", "parameters", "device", "memory_bytes"),
    *("gpu_memory_bytes", "gpu_total_bytes"),
    *("first_epoch_seconds", "total_seconds", "seconds", "alternatives"),
    *("expected_loss", "expected_bits_per_byte", "expected_from"),
}
SECONDS = {
    *("preparation", "compilation", "steps", "validation", "samples", "checkpoints", "export"),
}
DURATIONS = Durations(
    preparation=0.0,
    compilation=8.0,
    first_epochs=6.0,
    step=0.1,
    validation=2.0,
    samples=3.0,
    checkpoint=0.25,
    export=10.0,
)


def leftovers(folder):
    """What is in a folder for temporary files, except TensorFlow's sources, which any exit may leave."""
    return [name for name in os.listdir(folder) if not name.startswith("__autograph_generated")]


@pytest.fixture(autouse=True)
def short(without_xla, monkeypatch, tmp_path):
    """Temporary files in a folder of their own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    yield
    assert not leftovers(tmp_path / "temporary")


@pytest.fixture
def measured(monkeypatch):
    """Durations that are known instead of measured ones."""
    monkeypatch.setattr(planning, "measure", lambda task, model, folder: DURATIONS)


def test_it_agrees_with_what_the_training_records(tiny_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    forecast = minigpt.plan(tiny_run.config).as_dict()
    assert set(forecast) == KEYS
    assert set(forecast["seconds"]) == SECONDS
    assert not (tmp_path / "runs").exists()
    facts = tiny_run.facts
    assert forecast["parameters"]["total"] == facts["parameters"]
    parts = {key: value for key, value in forecast["parameters"].items() if key != "total"}
    assert sum(parts.values()) == facts["parameters"]
    assert forecast["tokens"]["train_tokens"] == facts["train_tokens"]
    assert forecast["tokens"]["val_tokens"] == facts["val_tokens"]
    assert forecast["tokens"]["vocab_size"] == tiny_run.load_tokenizer().vocab_size
    assert forecast["text"]["train_bytes"] == facts["train_bytes"]
    assert forecast["text"]["split"] == facts["text"]
    assert forecast["device"] == facts["device"]
    assert forecast["training"]["steps"] == records(tiny_run.metrics_file)[-1]["step"]
    assert forecast["model"] == tiny_run.config.model.model_dump()
    assert all(seconds > 0 for seconds in forecast["seconds"].values())
    assert forecast["total_seconds"] > forecast["first_epoch_seconds"] > 0
    assert forecast["memory_bytes"] > 1e8
    assert forecast["gpu_memory_bytes"] is forecast["gpu_total_bytes"] is None
    assert [found["minutes"] for found in forecast["alternatives"]] == [1, 10, 60]


def test_of_pairs(pair_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    forecast = minigpt.plan(pair_run.config)
    facts, values = pair_run.facts, forecast.as_dict()
    assert values["parameters"]["total"] == facts["parameters"]
    assert values["tokens"]["train_tokens"] == facts["train_tokens"]
    assert values["training"]["sequence_length"] is None
    assert values["expected_bits_per_byte"] is None
    assert values["expected_loss"] is None
    assert "no forecast: there are no measurements of pairs" in forecast.in_words()
    assert "pairs" in forecast.in_words()


def test_on_a_gpu(tiny_file, measured, monkeypatch):
    gpus = [SimpleNamespace(name="/physical_device:GPU:0")]
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
    monkeypatch.setattr(
        tf.config.experimental, "get_memory_info", lambda device: {"peak": 3 * 10**9}
    )
    monkeypatch.setattr("minigpt.training.strategy.gpu_memory", lambda: [24 * 10**9])
    text = {"data": {"source": "files", "paths": [str(tiny_file)]}}
    monkeypatch.setattr(planning, "speed_and_gpus", lambda training: (200 * REFERENCE_SPEED, 2))
    forecast = minigpt.plan(text | tiny_settings(tiny_file))
    assert "peak; 3,000 MB of the GPU's 24,000 MB\n" in forecast.in_words()
    assert forecast.as_dict()["gpu_total_bytes"] == 24 * 10**9


def test_accumulated_batches(tiny_file, measured):
    settings = tiny_settings(tiny_file, training={"accumulate_steps": 3})
    forecast = minigpt.plan(settings).as_dict()
    assert forecast["training"]["steps"] == 80
    assert forecast["training"]["tokens"] == 80 * 3 * 8 * 16
    assert forecast["training"]["passes"] == pytest.approx(
        80 * 3 * 8 * 16 / forecast["tokens"]["train_tokens"], rel=0.05
    )


def test_a_limit_limits_the_time(tiny_file, measured):
    settings = tiny_settings(tiny_file, training={"steps_per_epoch": 5000, "max_minutes": 2})
    forecast = minigpt.plan(settings)
    # 0.99 of the limit without the compilation; then validation, samples and a checkpoint.
    assert forecast.times.steps == int((118.8 - 8) / 0.1)
    assert forecast.times.training == pytest.approx(118.8 + 11.25, abs=0.2)
    steps = f"{forecast.times.steps:,} of 10,000 steps"
    line = f"training ends after about {steps} (training.max_minutes = 2)"
    assert f"\nTime limit  {line}\n" in forecast.in_words()


def test_settings_for_other_times(tiny_file, measured):
    text = {"data": {"source": "files", "paths": [str(tiny_file)]}}
    forecast = minigpt.plan(text, command="minigpt train --text tiny.txt")
    one, ten, sixty = forecast.alternatives
    assert one.settings[0] == "training.max_minutes=1"
    assert one.command.startswith("minigpt train --text tiny.txt --set training.max_minutes=1")
    assert sixty.settings[0] == "training.max_minutes=60"
    assert one.total_seconds <= ten.total_seconds <= sixty.total_seconds
    # All settings can be used.
    for alternative in forecast.alternatives:
        minigpt.load_config(None, alternative.settings, [str(tiny_file)])


def test_the_stories_get_more_epochs(measured):
    forecast = minigpt.plan("default")
    one, ten, sixty = forecast.alternatives
    assert not any(setting.startswith("training.epochs") for setting in one.settings)
    (epochs,) = (s for s in sixty.settings if s.startswith("training.epochs="))
    assert int(epochs.partition("=")[2]) > 10
    lows = [found.loss.loss[0] for found in (one, ten)]
    assert lows[0] > lows[1]
    assert forecast.loss.bits_per_byte[0] > 0.067


@pytest.mark.parametrize(("steps", "baseline"), [(5, "uniform"), (50, "unigram")])
def test_few_updates_may_learn_nothing(tiny_run, measured, steps, baseline):
    training = tiny_run.config.training.model_copy(update={"epochs": 1, "steps_per_epoch": steps})
    forecast = minigpt.plan(tiny_run.config.model_copy(update={"training": training}))
    expected = tiny_run.facts["baselines"][baseline]
    assert forecast.loss.loss[1] >= expected - 1e-6
    assert f"{steps} updates may be too few" in forecast.loss.basis


def test_a_tokenizer_that_loses_text_has_no_bits(tiny_file, measured):
    settings = tiny_settings(tiny_file)
    settings["tokenizer"] = {"kind": "word", "vocab_size": 40}
    values = minigpt.plan(settings).as_dict()
    assert values["expected_bits_per_byte"] is None and values["expected_loss"]["low"] > 0
    assert "the unigram baseline alone" in values["expected_from"]


def test_token_ids_that_are_made_are_not_part_of_the_time(tiny_file, tmp_path, monkeypatch):
    """Training after the plan finds them."""
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(planning, "measure", lambda *_: replace(DURATIONS))
    opened = []
    original = Start.open_corpus

    def slow_at_first(self):
        corpus = original(self)
        opened.append(corpus.from_cache)
        if not corpus.from_cache:
            time.sleep(5)
        return corpus

    monkeypatch.setattr(Start, "open_corpus", slow_at_first)
    forecast = minigpt.plan(tiny_settings(tiny_file))
    assert opened == [False, True]
    assert list((tmp_path / "cache/tokens").iterdir())
    assert forecast.times.parts["preparation"] < 5


def test_a_run_directory_that_exists(tiny_run):
    with pytest.raises(UserError, match="already contains a run"):
        minigpt.plan(tiny_run.config, tiny_run.path)


def test_commands(tmp_path, measured):
    (tmp_path / "book.txt").write_text(tiny_text(), encoding="utf-8")
    train = ("train", "--text", "book.txt", *SMALL)
    done = called(*train, "--plan", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert '"first_epoch_seconds": ' in line
    assert "Chosen for" in done.stderr
    done = called(*train, "--plan", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\nTime        about " in done.stdout and "\n10 min: " in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"book.txt", "temporary"}


def test_options_that_cannot_be_combined(tmp_path, tiny_run):
    (line,) = refused("train", "--json", cwd=tmp_path)
    assert line == "minigpt: --json: has no effect without --plan"
    (line,) = refused("train", "--plan", "--resume", tiny_run.path, cwd=tmp_path)
    assert "--plan: forecasts a new run" in line and "--resume" in line
    (line,) = refused("train", "--plan", "--run", tiny_run.path, cwd=tmp_path)
    assert line.startswith("minigpt: --run ") and "already contains a run" in line
    (line,) = refused("train", "--plan", "--set", "training.epoch=2", cwd=tmp_path)
    assert "unknown setting" in line


def test_ctrl_c_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "book.txt").write_text(tiny_text(), encoding="utf-8")
    folder = tmp_path / "temporary"
    monkeypatch.setenv("TMPDIR", str(folder))
    # XLA would end its compilation before the process ends.
    command = ("train", "--text", "book.txt", *SMALL, "--set=training.jit_compile=false", "--plan")
    with started(*command, cwd=tmp_path) as process:
        while process.poll() is None and not list(folder.glob("minigpt-plan-*/run/config.toml")):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "Memory" not in out
    assert not leftovers(folder)
    assert {path.name for path in tmp_path.iterdir()} == {"book.txt", "temporary"}
