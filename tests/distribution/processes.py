"""Processes of tests: training by several workers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from minigpt.distribution.launch import free_ports

PROJECT = Path(__file__).resolve().parents[2]


def start_workers(
    workers: int, *command: str, cwd: Path = PROJECT, **options: Any
) -> list[subprocess.Popen]:
    """Starts a command of Python in several processes, each with its TF_CONFIG; in one, without."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(workers)]}
    return [
        start_worker(index, cluster if workers > 1 else None, *command, cwd=cwd, **options)
        for index in range(workers)
    ]


def start_worker(
    index: int, cluster: dict[str, list[str]] | None, *command: str, **options: Any
) -> subprocess.Popen:
    """Starts one worker of a cluster, `{"worker": addresses}`."""
    environment = dict(os.environ, PYTHONPATH=str(PROJECT))
    del environment["TF_CPP_MIN_LOG_LEVEL"]  # That of this process, which is no worker.
    if cluster:
        task = {"type": "worker", "index": index}
        environment["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def outputs(processes: list[subprocess.Popen], timeout: float = 300) -> list[tuple[str, str]]:
    """Waits for processes; returns their standard outputs and errors."""
    try:
        return [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
