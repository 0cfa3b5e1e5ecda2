"""Trainings by several processes: their results, and how they end."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import minigpt
from minigpt.config import dump_config, load_config
from minigpt.distribution.launch import free_ports
from minigpt.interrupts import INTERRUPTED
from tests.conftest import tiny_settings
from tests.distribution.launching import children, launch, newest_step
from tests.distribution.processes import outputs, start_worker
from tests.run_files import records
from tests.same_runs import lines

TRAINING = {"jit_compile": False, "checkpoint_every_steps": 10, "keep_epochs": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_file) -> Path:
    """Holds a configuration whose training has 2 epochs of 12 steps, and one that is much longer."""
    folder = tmp_path_factory.mktemp("workers")
    for name, changes in (
        ("short", {"steps_per_epoch": 12}),
        ("long", {"steps_per_epoch": 100_000}),
    ):
        settings = tiny_settings(tiny_file, training={**TRAINING, **changes})
        (folder / f"{name}.toml").write_text(dump_config(load_config(settings)), encoding="utf-8")
    return folder


def wait_for_step(run: Path, step: int) -> None:
    end = time.monotonic() + 120
    while newest_step(run) < step:
        assert time.monotonic() < end, "no checkpoint"
        time.sleep(0.05)


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


@pytest.mark.slow
def test_workers_end_when_launch_is_killed(folder):
    run = folder / "orphans"
    process = launch(folder, "--config", "long.toml", "--run", run.name)
    wait_for_step(run, 10)
    workers = children(process)
    process.kill()
    process.wait()
    end = time.monotonic() + 60
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < end, "a worker is still running"
        time.sleep(0.2)
    process.stdout.close()
    process.stderr.close()


def test_a_worker_that_waits_is_ended_by_sigterm(folder):
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    worker = start_worker(
        0, cluster, *("minigpt", "train", "--config", "short.toml", "--run", "none"), cwd=folder
    )
    port = int(cluster["worker"][0].rpartition(":")[2])
    end = time.monotonic() + 60
    while not listens(port):
        assert time.monotonic() < end
        time.sleep(0.1)
    worker.terminate()
    [(_, err)] = outputs([worker])
    assert worker.returncode == INTERRUPTED
    assert "Traceback" not in err
    assert not (folder / "none").exists()


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def start_two(folder: Path, *commands: list[str]) -> list[subprocess.Popen]:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    return [
        start_worker(index, cluster, "minigpt", "train", *command, cwd=folder)
        for index, command in enumerate(commands)
    ]


def test_a_worker_with_another_configuration_is_named(folder, tiny_file):
    common = ["--config", "short.toml", "--run", "refused"]
    processes = start_two(folder, common, [*common, "--set", "training.batch_size=4"])
    for process, (_, err) in zip(processes, outputs(processes), strict=True):
        assert process.returncode == 2
        assert re.fullmatch(
            r"minigpt: worker 1 \(127.0.0.1:\d+\): training.batch_size = 4; worker 0 has 8\n", err
        )
    assert not (folder / "refused").exists()


@pytest.mark.slow
def test_a_worker_with_another_text_is_named(folder, tmp_path, tiny_file):
    text = tmp_path / "tiny.txt"
    text.write_text(tiny_file.read_text(encoding="utf-8") + "\nMore.", encoding="utf-8")
    common = ["--config", "short.toml", "--run", "refused"]
    processes = start_two(
        folder, common, [*common, "--set", f"data.paths={json.dumps([str(text)])}"]
    )
    for process, (_, err) in zip(processes, outputs(processes), strict=True):
        assert process.returncode == 2
        assert re.match(r"minigpt: worker 1 \(127.0.0.1:\d+\): hash of the text = ", err)
        assert len(err.splitlines()) == 1
    assert not (folder / "refused").exists()


@pytest.mark.slow
def test_a_second_worker_of_the_same_number_is_refused(folder):
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    command = ["minigpt", "train", "--config", "long.toml", "--run", "joined"]
    processes = [start_worker(index, cluster, *command, cwd=folder) for index in range(2)]
    wait_for_step(folder / "joined", 10)
    late = start_worker(1, cluster, *command, cwd=folder)
    [(_, err)] = outputs([late])
    assert late.returncode == 2
    assert err.startswith(f"minigpt: worker 1 ({cluster['worker'][1]}): cannot use this address")
    assert len(err.splitlines()) == 1
    # The training goes on.
    wait_for_step(folder / "joined", newest_step(folder / "joined") + 20)
    processes[1].send_signal(signal.SIGINT)
    for _, err in outputs(processes):
        assert err == ""


@pytest.mark.slow
def test_an_error_of_the_first_worker_ends_all(folder):
    changes = ("optimizer=sgd", "learning_rate=1e30", "checkpoint_every_steps=1000")
    options = [part for change in changes for part in ("--set", f"training.{change}")]
    process = launch(folder, "--config", "short.toml", "--run", "nan", *options)
    [(_, err)] = outputs([process])
    assert process.returncode == 2
    messages = err.splitlines()
    assert len(messages) == 2, err
    assert sorted("the loss" in line for line in messages) == [False, True]
    assert any(line.endswith("because another worker failed; see its message") for line in messages)


@pytest.mark.slow
def test_a_callback_of_any_worker_stops_all_after_the_same_update(folder, tiny_file):
    settings = tiny_settings(tiny_file, training={**TRAINING, "accumulate_steps": 3})
    config = folder / "accumulated.toml"
    config.write_text(dump_config(load_config(settings)), encoding="utf-8")
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    # The first batch of the second update.
    command = ["tests.distribution.stopping", str(config), str(folder / "stopped"), "4"]
    processes = [start_worker(index, cluster, *command) for index in range(2)]
    for process, (_, err) in zip(processes, outputs(processes), strict=True):
        assert process.returncode == 0, err
    run = minigpt.Run(folder / "stopped")
    assert [line["step"] for line in lines(run.metrics_file)] == [2]
