"""Validation and samples within an epoch, by updates: what is recorded, the best state, early stopping."""

import math

import keras
import pytest

import minigpt
from minigpt.evaluation.text import Evaluator
from minigpt.insight.history import read_history
from minigpt.insight.report.report import report_facts
from minigpt.runs.checkpoints import best_checkpoint, read_checkpoint
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.run import open_run_corpus
from minigpt.targets.gguf.run_file import best_facts
from minigpt.training import loop
from minigpt.training.checkpointing import Checkpointing
from minigpt.training.metrics import Records
from minigpt.training.tasks.language_modeling import LanguageModeling
from tests.conftest import SAMPLED, tiny_settings
from tests.same_runs import assert_same, lines
from tests.training.interrupting import killed, settings

pytestmark = pytest.mark.usefixtures("no_export")


def test_what_is_recorded_is_the_loss_of_that_state(tiny_file, tmp_path, capsys):
    """An update has two batches here. Each checkpoint is evaluated again."""
    training = {
        "eval_every_steps": 7,
        "sample_every_steps": 10,
        "steps_per_epoch": 20,
        "accumulate_steps": 2,
        "checkpoint_every_steps": 1,
        "keep_checkpoints": 100,
    }
    run = minigpt.train(
        tiny_settings(tiny_file, training=training, sampling=SAMPLED), tmp_path / "r"
    )
    recorded = lines(run.metrics_file)
    assert [(line["epoch"], line["step"]) for line in recorded] == [
        (0.35, 7),
        (0.7, 14),
        (1, 20),
        (1.05, 21),
        (1.4, 28),
        (1.75, 35),
        (2, 40),
    ]
    assert all(line.keys() == recorded[2].keys() for line in recorded)
    by_step = {
        int(path.name.split("-")[1]): path for path in checkpoint_paths(run.checkpoints_folder)
    }
    model = run.load_model()
    evaluator, ids = Evaluator(model), open_run_corpus(run).val.ids
    for line in recorded[:4]:
        arrays = read_checkpoint(by_step[line["step"]]).arrays
        model.set_weights([arrays[n] for n in sorted(arrays) if n.startswith("weights/")])
        assert evaluator.loss(ids) == pytest.approx(line["val_loss"], rel=1e-5)
    samples = lines(run.samples_file)
    assert [line["epoch"] for line in samples[::2]] == [0.5, 1, 1.5, 2]
    shown = capsys.readouterr().out
    assert "step 7: training loss" in shown and "epoch 1/2: training loss" in shown
    assert '"epoch": 1,' in run.metrics_file.read_text()


def test_the_best_state_may_be_within_an_epoch(tiny_file, tmp_path, monkeypatch):
    losses = iter([3.0, 2.0, 2.5, 2.6, 2.4, 2.1, 2.2])
    scores = LanguageModeling.scores
    monkeypatch.setattr(
        LanguageModeling, "scores", lambda t: scores(t) | {"val_loss": next(losses)}
    )
    training = {"eval_every_steps": 15, "steps_per_epoch": 40, "early_stopping_patience": 4}
    run = minigpt.train(tiny_settings(tiny_file, training=training), tmp_path / "r")
    # The fourth validation without a lower loss ends training, within the second epoch.
    steps = [line["step"] for line in lines(run.metrics_file)]
    assert steps == [15, 30, 40, 45, 60, 75, 75]
    best = best_checkpoint(run.checkpoints_folder)
    assert best.path.name == "step-00000030" and best.progress.step == 30
    newest = read_checkpoint(checkpoint_paths(run.checkpoints_folder)[-1])
    assert (newest.progress.best.val_loss, newest.progress.epochs_since_best) == (2.0, 4)
    assert best_facts(run)["step"] == 30 and best_facts(run)["epoch"] == 0.75
    history = read_history(run)
    assert (history.best.step, history.best.epoch, history.last.step) == (30, 1, 75)
    facts = report_facts(run)
    assert facts["best_epoch"] == 0.75 and facts["epochs"] == 2
    assert [record["step"] for record in facts["metrics"]] == steps
    (summary,) = minigpt.list_runs(run.path)
    assert (summary.val_loss, summary.epochs) == (2.0, 2)


@pytest.mark.slow
def test_interrupted_anywhere_it_ends_the_same(tiny_file, tmp_path, deterministic):
    training = {"eval_every_steps": 4, "sample_every_steps": 7, "early_stopping_patience": 30}
    chosen = settings(tiny_file, training=training, sampling=SAMPLED)
    right = minigpt.train(chosen, tmp_path / "right")
    path = tmp_path / "run"
    # The lines of the validation at step 4 are written, its checkpoint is not.
    killed(lambda: minigpt.train(chosen, path), Checkpointing, "save", 1)
    assert lines(path / "metrics.jsonl")[0]["step"] == 4
    # Between two checkpoints, after a validation and samples; before the line of one is written.
    killed(lambda: minigpt.resume(path), loop, "learning_rate", 16)
    killed(lambda: minigpt.resume(path), Records, "add_scores", 3)
    killed(lambda: minigpt.resume(path), keras.callbacks.CallbackList, "on_epoch_end", 1)
    assert_same(minigpt.resume(path), right)
    losses = [line["val_loss"] for line in lines(right.metrics_file)]
    assert len(losses) == 10 and all(map(math.isfinite, losses))
