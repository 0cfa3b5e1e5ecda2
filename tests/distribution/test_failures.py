"""Workers that differ, fail, are missing or are ended: what is said, and that all of them end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import minigpt
from minigpt.distribution.launch import free_ports
from minigpt.interrupts import INTERRUPTED
from tests.distribution.launching import children, launch, newest_step, wait_for_step
from tests.distribution.processes import outputs, start_worker


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
@pytest.mark.parametrize("accumulate_steps", [1, 2])
def test_an_error_of_the_first_worker_ends_all(folder, accumulate_steps):
    changes = (
        *("optimizer=sgd", "learning_rate=1e30", "checkpoint_every_steps=1000"),
        f"accumulate_steps={accumulate_steps}",
    )
    options = [part for change in changes for part in ("--set", f"training.{change}")]
    run = f"nan{accumulate_steps}"
    process = launch(folder, "--config", "short.toml", "--run", run, *options)
    [(_, err)] = outputs([process])
    assert process.returncode == 2
    messages = err.splitlines()
    assert len(messages) == 2, err
    assert sorted("the loss" in line for line in messages) == [False, True]
    # Within an accumulated update, the other worker only sees that the first one has ended.
    reasons = ("because another worker failed; see its message", "from its last checkpoint")
    assert any(line.endswith(reasons) for line in messages)


@pytest.mark.slow
def test_workers_that_begin_with_other_weights_are_named(folder, tmp_path):
    """The folder of the run is a copy on each machine, and one of them is another run."""
    minigpt.train(folder / "short.toml", tmp_path / "a", overrides=["training.epochs=1"])
    other = ["training.epochs=1", "training.seed=5"]
    minigpt.train(folder / "short.toml", tmp_path / "b", overrides=other)
    own = []
    for index, name in enumerate("ab"):
        (tmp_path / f"machine{index}").mkdir()
        (tmp_path / name).rename(tmp_path / f"machine{index}/base")
        init = ["--set", "training.init_from=base", "--config", str(folder / "short.toml")]
        own.append([*init, "--run", "tuned", "--set", "training.epochs=1"])
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    processes = [
        start_worker(i, cluster, "minigpt", "train", *own[i], cwd=tmp_path / f"machine{i}")
        for i in range(2)
    ]
    for process, (_, err) in zip(processes, outputs(processes), strict=True):
        assert process.returncode == 2
        assert re.match(r"minigpt: worker 1 \(127.0.0.1:\d+\): SHA-256 of the weights = ", err)


@pytest.mark.slow
def test_a_worker_that_ends_while_the_others_connect_is_named():
    """A process that listens, as a worker does, and ends when TensorFlow connects."""
    program = (
        "from minigpt.distribution import cluster, connection; "
        "connection.connect(cluster.find_cluster())"
    )
    ports = free_ports(2)
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    with socket.create_server(("127.0.0.1", ports[1])) as server:
        environment = os.environ | {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
        }
        began = time.monotonic()
        waiting = subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True
        )
        server.accept()[0].close()
    [(_, err)] = outputs([waiting])
    assert time.monotonic() - began < 60
    assert waiting.returncode == -signal.SIGKILL
    name = f"worker 1 (127.0.0.1:{ports[1]})"
    assert f"minigpt: {name}: has ended or cannot be reached" in err
