"""A finished run: extended by further epochs, or refused because something has changed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import minigpt
from minigpt.errors import UserError
from minigpt.insight.doctor import diagnose
from minigpt.insight.history import read_history
from minigpt.runs import checkpoints
from minigpt.runs.checkpoints import read_checkpoint
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.lock import run_lock
from minigpt.runs.run import open_run_corpus
from tests.conftest import SAMPLED
from tests.run_files import METRICS, RUN_FILES, names_in, records
from tests.same_runs import lines
from tests.training.interrupting import killed, settings


@pytest.fixture(scope="module")
def ended(tiny_file, tmp_path_factory) -> Path:
    """A finished training; tests copy it."""
    training = {"steps_per_epoch": 10, "checkpoint_every_steps": 4, "keep_checkpoints": 3}
    path = tmp_path_factory.mktemp("ended") / "run"
    return minigpt.train(
        settings(tiny_file, training=training | {"deterministic": False}, sampling=SAMPLED), path
    ).path


@pytest.fixture
def copied(ended, tmp_path) -> Path:
    return Path(shutil.copytree(ended, tmp_path / "copy"))


def test_what_the_doctor_says_trains_further(tiny_file, tmp_path, no_export):
    """Also if the time limit has shortened the last epoch."""
    training = {"epochs": 2, "steps_per_epoch": 8, "max_minutes": 60, "step_limits": [[4, 12]]}
    run = minigpt.train(settings(tiny_file, training=training), tmp_path / "run")
    # Whether there is time to count n-grams, for a verdict of its own, depends on the machine.
    history = read_history(run)
    assert history.last.seconds == records(run.metrics_file)[-1]["seconds"]
    action = next(v.action for v in diagnose(history) if v.id == "too_short")
    changes = action.strip("`.").split(" --set ")[1:]
    minigpt.resume(run, changes)
    assert [line["step"] for line in records(run.metrics_file)][:3] == [8, 12, 20]


def test_a_finished_run_is_extended(copied, capsys):
    said_before = (copied / "samples.jsonl").read_bytes()
    model = (copied / "model.keras").read_bytes()
    minigpt.resume(copied)
    assert "has ended at step 20. Extend it with: minigpt train --resume" in capsys.readouterr().out
    assert (copied / "model.keras").read_bytes() == model
    run = minigpt.resume(copied, ["training.epochs=4", "training.learning_rate=0.02"])
    out = capsys.readouterr().out
    assert "training.epochs changed from 2 to 4" in out
    assert "training.learning_rate changed from 0.01 to 0.02" in out
    metrics = lines(run.metrics_file)
    assert [line["epoch"] for line in metrics] == [1, 2, 3, 4]
    assert [line["step"] for line in metrics] == [10, 20, 30, 40]
    assert run.samples_file.read_bytes().startswith(said_before)
    assert run.config.training.epochs == 4
    best = min(line["val_loss"] for line in metrics)
    assert minigpt.evaluate_run(run).loss == pytest.approx(best, rel=1e-5)
    assert best < metrics[1]["val_loss"]
    assert names_in(copied) == RUN_FILES - {"saved_model"}
    recorded = records(run.metrics_file)
    assert all(set(line) == METRICS for line in recorded)
    assert recorded == sorted(recorded, key=lambda line: line["seconds"])


def test_the_facts_of_a_new_run(ended):
    run = minigpt.Run(ended)
    corpus = open_run_corpus(run)
    train, val = (np.asarray(part.ids, "int64")[1:] for part in (corpus.train, corpus.val))
    assert run.facts["parameters"] == run.load_model().count_params()
    assert run.facts["train_bytes"] == len(run.load_tokenizer().decode(train).encode())
    assert (run.facts["train_tokens"], run.facts["val_tokens"]) == (len(train), len(val))
    assert run.facts["baselines"]["unigram"] < run.facts["baselines"]["uniform"]


def test_fewer_epochs_than_are_done_export_the_best_model(copied, capsys):
    (copied / "model.keras").unlink()  # As after Ctrl-C.
    before = (copied / "metrics.jsonl").read_bytes()
    run = minigpt.resume(copied, ["training.epochs=1"])
    assert run.metrics_file.read_bytes() == before and run.model_file.is_file()
    minigpt.resume(copied, ["training.epochs=1"])
    assert "training.epochs=3" in capsys.readouterr().out


@pytest.mark.parametrize(("state", "is_exported"), [("interrupted", False), ("training", True)])
def test_an_end_that_was_not_recorded_is_recorded_later(copied, no_export, state, is_exported):
    """An earlier process was interrupted while it exported, or killed after it had."""
    analysis = copied / "analysis.json"
    record = json.loads(analysis.read_text())
    analysis.write_text(json.dumps(record | {"state": state}))
    if not is_exported:
        (copied / "model.keras").unlink()
    assert [run.state for run in minigpt.list_runs(copied)] == ["interrupted"]
    minigpt.resume(copied)
    assert [run.state for run in minigpt.list_runs(copied)] == ["finished"]
    # What the earlier process has measured stays.
    again = json.loads(analysis.read_text())
    assert again | {"written": record["written"]} == record


def test_killed_between_a_better_epoch_and_its_checkpoint(copied, no_export):
    """No model.keras is left that is not the best."""
    killed(
        lambda: minigpt.resume(copied, ["training.epochs=3"]),
        minigpt.training.checkpointing,
        "write_checkpoint",
        3,
    )
    metrics = lines(copied / "metrics.jsonl")
    assert metrics[2]["val_loss"] < metrics[1]["val_loss"]
    newest = checkpoint_paths(copied / "checkpoints")[-1]
    assert read_checkpoint(newest).progress.best.epoch == 2
    assert not (copied / "model.keras").exists()
    assert minigpt.evaluate_run(minigpt.Run(copied)).loss == pytest.approx(
        metrics[1]["val_loss"], rel=1e-5
    )


def test_a_finished_run_without_checkpoints_is_not_begun_again(copied):
    shutil.rmtree(copied / "checkpoints")
    before = (copied / "metrics.jsonl").read_bytes(), (copied / "model.keras").read_bytes()
    with pytest.raises(UserError, match="a finished model and no checkpoint to resume from"):
        minigpt.resume(copied, ["training.epochs=3"])
    after = (copied / "metrics.jsonl").read_bytes(), (copied / "model.keras").read_bytes()
    assert after == before


def test_what_cannot_change_is_refused_by_name(copied):
    changes = [
        "model.embed_dim=32",
        "tokenizer.vocab_size=300",
        "data.val_fraction=0.2",
        "training.batch_size=4",
        "training.epochs=9",
        "sampling.top_k=3",
    ]
    before = (copied / "config.toml").read_bytes()
    with pytest.raises(UserError) as caught:
        minigpt.resume(copied, changes)
    assert [problem.split(" = ")[0] for problem in caught.value.problems] == [
        "data.val_fraction",
        "tokenizer.vocab_size",
        "model.embed_dim",
        "training.batch_size",
    ]
    assert "was started with 16" in str(caught.value)
    assert (copied / "config.toml").read_bytes() == before


def test_a_broken_checkpoint_is_named_and_the_one_before_used(copied, capsys, no_export):
    newest = checkpoint_paths(copied / "checkpoints")[-1]
    state = newest / checkpoints.STATE
    state.write_bytes(state.read_bytes()[:-1])
    metrics, samples = lines(copied / "metrics.jsonl"), (copied / "samples.jsonl").read_bytes()
    run = minigpt.resume(copied)
    out = capsys.readouterr().out
    assert f"{newest}: was damaged and is ignored: " in out
    assert "Resuming    at step 16 of 20" in out
    assert read_checkpoint(newest).progress.step == 20
    assert [line["epoch"] for line in lines(run.metrics_file)] == [1, 2]
    assert lines(run.metrics_file)[0] == metrics[0]
    assert samples.splitlines()[:2] == run.samples_file.read_bytes().splitlines()[:2]


def test_without_a_sound_checkpoint_nothing_is_begun_again_in_silence(copied):
    for path in checkpoint_paths(copied / "checkpoints"):
        (path / checkpoints.MANIFEST).write_text("")
    with pytest.raises(UserError, match=r"no undamaged checkpoint \(4 are damaged\)"):
        minigpt.resume(copied)
    assert len(checkpoint_paths(copied / "checkpoints")) == 4


def test_a_text_that_has_changed_is_refused(tiny_file, copied):
    original = tiny_file.read_text()
    try:
        tiny_file.write_text(original.replace("Ana", "Eva"))
        with pytest.raises(UserError, match="has changed since training"):
            minigpt.resume(copied, ["training.epochs=3"])
    finally:
        tiny_file.write_text(original)


def test_the_second_process_is_refused(copied):
    with run_lock(copied), pytest.raises(UserError, match="another process"):
        minigpt.resume(copied)
