"""Workers that differ, fail, are missing or are ended: what is said, and that all of them end."""

import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from minigpt.distribution.launch import free_ports
from minigpt.interrupts import INTERRUPTED
from tests.distribution.launching import children, launch, wait_for_step
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
    # All workers find it, and say the same.
    assert len(err.splitlines()) == 1 and "the loss is" in err, err
