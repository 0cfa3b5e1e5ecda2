"""Reading the history of a run from its files."""

import json
import shutil
from itertools import pairwise

import numpy as np
import pytest

from minigpt.insight.history import read_history
from minigpt.runs.analysis import Analysis
from minigpt.runs.records import interval_lines
from minigpt.runs.run import Run


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
    found = interval_lines([lines[0], lines[3], *lines])
    steps = [line["step"] for line in found]
    assert steps == [4, 12, 20, 24, 32, 40, 44, 52, 60]
    expected = [losses[a:b].mean() for a, b in pairwise([0, *steps])]
    assert [line["loss"] for line in found] == pytest.approx(expected)
    thinned = interval_lines(lines, 3)
    assert [line["step"] for line in thinned] == [4, 32, 60]
    assert [line["loss"] for line in thinned] == pytest.approx(
        [losses[:4].mean(), losses[20:32].mean(), losses[40:].mean()]
    )


def test_damaged_lines_are_left_out(tiny_run, tmp_path):
    lines = [line(1, 1, 1, 3.0), {"epoch": 1}, line(1, 2, 2, None), line(1, 3, 3, 2.0)]
    lines += [{**line(1, 4, 4, 2.0), "step": "4"}, {**line(1, 5, 5, 2.0), "batches": 2}]
    damaged = Run(shutil.copytree(tiny_run.path, tmp_path / "run"))
    damaged.steps_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    history = read_history(damaged)
    assert history.steps.tolist() == [1, 3]
    assert history.losses == pytest.approx([3.0, 1.5])
    assert history.learning_rates == pytest.approx([0.001, 0.003])


def test_a_run(tiny_run):
    history = read_history(tiny_run)
    assert [epoch.step for epoch in history.epochs] == [40, 80]
    assert history.steps.tolist() == list(range(1, 81))
    # The epochs record the same means.
    for epoch, losses in zip(history.epochs, history.losses.reshape(2, 40), strict=True):
        assert losses.mean() == pytest.approx(epoch.train_loss, abs=1e-4)
    assert history.last_step == 80 and not history.has_failed
    assert history.parameters == tiny_run.load_model().count_params()
    assert history.analysis.tokens_per_step == 8 * 16


def test_a_run_that_has_lost_its_records(tiny_run, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(tiny_run.path, old)
    for name in ("steps.jsonl", "analysis.json", "facts.json"):
        (old / name).unlink()
    (old / "metrics.jsonl").write_bytes((old / "metrics.jsonl").read_bytes() + b'{"epoch": 3')
    history = read_history(Run(old))
    assert history.steps.tolist() == [20, 60]
    assert history.losses.tolist() == [epoch.train_loss for epoch in history.epochs]
    assert history.analysis == Analysis() and history.parameters == 0 and np.isnan(history.unigram)
