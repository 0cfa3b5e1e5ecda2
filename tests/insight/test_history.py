"""Reading the history of a run from its files."""

import json

import numpy as np
import pytest

from minigpt.insight.history import read_history, training_curve


def line(epoch: int, step: int, batches: int, mean_loss: float | None) -> dict:
    return {
        "epoch": epoch,
        "step": step,
        "batches": batches,
        "mean_loss": mean_loss,
        "learning_rate": 1e-3 * step,
    }


def test_losses_between_lines_are_those_of_the_batches():
    losses = np.random.default_rng(0).gamma(2.0, 1.0, 60)
    lines = []
    for epoch in range(3):
        of_epoch = losses[20 * epoch : 20 * epoch + 20]
        lines += [
            line(epoch + 1, 20 * epoch + batches, batches, float(of_epoch[:batches].mean()))
            for batches in (4, 12, 20)
        ]
    steps, found, rates = training_curve(lines)
    assert steps.tolist() == [4, 12, 20, 24, 32, 40, 44, 52, 60]
    begins = [0, 4, 12, 20, 24, 32, 40, 44, 52]
    expected = [losses[a:b].mean() for a, b in zip(begins, steps.astype(int), strict=True)]
    assert found == pytest.approx(expected)
    assert rates == pytest.approx(steps / 1000)


def test_damaged_lines_are_left_out():
    lines = [line(1, 1, 1, 3.0), {"epoch": 1}, line(1, 2, 2, None), line(1, 3, 3, 2.0)]
    lines += [{**line(1, 4, 4, 2.0), "step": "4"}, {**line(1, 5, 5, 2.0), "batches": 2}]
    steps, losses, _ = training_curve(lines)
    assert steps.tolist() == [1, 3]
    assert losses == pytest.approx([3.0, 1.5])


def test_a_run(tiny_run):
    history = read_history(tiny_run)
    assert [epoch.step for epoch in history.epochs] == [40, 80]
    assert history.steps.tolist() == list(range(1, 81))
    # The epochs record the same means.
    for epoch, losses in zip(history.epochs, history.losses.reshape(2, 40), strict=True):
        assert losses.mean() == pytest.approx(epoch.train_loss, abs=1e-4)
    assert history.last_step == 80 and not history.has_failed
    assert history.parameters == tiny_run.load_model().count_params()
    assert history.tokens_per_step == 8 * 16


def test_a_run_of_an_earlier_version(tiny_run, tmp_path):
    """It has neither steps.jsonl nor analysis.json."""
    import shutil

    old = tmp_path / "old"
    shutil.copytree(tiny_run.path, old)
    for name in ("steps.jsonl", "analysis.json", "facts.json"):
        (old / name).unlink()
    (old / "metrics.jsonl").write_bytes((old / "metrics.jsonl").read_bytes() + b'{"epoch": 3')
    from minigpt.runs.run import Run

    history = read_history(Run(old))
    assert history.steps.tolist() == [20, 60]
    assert history.losses.tolist() == [epoch.train_loss for epoch in history.epochs]
    assert history.analysis == {} and history.parameters == 0 and np.isnan(history.unigram)


def test_a_training_whose_loss_became_nan(tiny_run, tmp_path):
    import shutil

    from minigpt.runs.run import Run

    failed = tmp_path / "failed"
    shutil.copytree(tiny_run.path, failed)
    with (failed / "steps.jsonl").open("a") as lines:
        lines.write(json.dumps(line(3, 81, 1, None)) + "\n")
    assert read_history(Run(failed)).has_failed
