"""Training by several processes: its results, and how it ends."""

import os
import re
import signal
import time

import numpy as np
import pytest

import minigpt
from minigpt.interrupts import INTERRUPTED
from tests.distribution.launching import children, launch, newest_step, wait_for_step
from tests.distribution.processes import outputs
from tests.run_files import records
from tests.same_runs import lines


@pytest.mark.slow
def test_a_launched_training_is_that_of_one_process(folder):
    alone = minigpt.train(folder / "short.toml", folder / "alone")
    process = launch(folder, "--config", "short.toml", "--run", "together")
    [(out, err)] = outputs([process])
    assert process.returncode == 0, err
    assert err == ""
    together = minigpt.Run(folder / "together")
    for ours, right in zip(lines(together.steps_file), lines(alone.steps_file), strict=True):
        assert ours["step"] == right["step"]
        assert ours["mean_loss"] == pytest.approx(right["mean_loss"], rel=1e-5)
    for ours, right in zip(lines(together.metrics_file), lines(alone.metrics_file), strict=True):
        assert ours.keys() == right.keys()
        assert ours["val_loss"] == pytest.approx(right["val_loss"], rel=1e-4)
    assert records(together.samples_file) == records(alone.samples_file)
    assert together.config == alone.config
    # Every line of output is printed once.
    assert out.count("epoch 2/2:") == 1
    assert "2 workers" in out
    model, right = together.load_model(), alone.load_model()
    for ours, theirs in zip(model.get_weights(), right.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


@pytest.mark.parametrize("worker", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_ctrl_c_in_any_worker_saves_and_ends_all(folder, worker):
    process = launch(folder, "--config", "long.toml", "--run", f"interrupted{worker}")
    run = folder / f"interrupted{worker}"
    wait_for_step(run, 10)
    os.kill(children(process)[worker], signal.SIGINT)
    [(out, err)] = outputs([process])
    assert process.returncode == INTERRUPTED, err
    assert err == ""
    step = int(re.search(r"Interrupted at step (\d+)", out)[1])
    assert newest_step(run) == step


@pytest.mark.slow
@pytest.mark.parametrize("killed, resumed", [(0, 1), (1, 3)])
def test_a_killed_worker_ends_all_and_others_resume(folder, killed, resumed):
    """The number of processes changes."""
    run = folder / f"killed{killed}"
    process = launch(folder, "--config", "long.toml", "--run", run.name)
    wait_for_step(run, 20)
    began = time.monotonic()
    os.kill(children(process)[killed], signal.SIGKILL)
    [(out, err)] = outputs([process])
    assert time.monotonic() - began < 60
    assert process.returncode not in (0, INTERRUPTED)
    assert re.fullmatch(
        rf"minigpt: worker {killed} \(127.0.0.1:\d+\): has ended or cannot be reached; resume training "
        rf"from its last checkpoint\nminigpt: worker {killed} was ended by SIGKILL\n",
        err,
    )
    newest = newest_step(run)
    changes = ["--set", "training.epochs=1", "--set", f"training.max_minutes={1 / 60}"]
    process = launch(folder, "--resume", run.name, *changes, workers=resumed)
    [(out, err)] = outputs([process])
    assert process.returncode == 0, err
    assert f"Resuming    at step {newest}" in out
    steps = [line["step"] for line in lines(minigpt.Run(run).steps_file)]
    assert steps == sorted(set(steps))
