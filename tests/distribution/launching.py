"""`minigpt launch` in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minigpt.runs.layout import checkpoint_paths
from tests.distribution.processes import PROJECT


def launch(
    folder: Path, *arguments: str, workers: int = 2, ignore: signal.Signals | None = None
) -> subprocess.Popen:
    """Starts `minigpt train` in several workers, with this current folder, as `nohup` ignores a signal."""
    ignoring = ["env", f"--ignore-signal={ignore.name}"] if ignore else []
    return subprocess.Popen(
        [
            *ignoring,
            *(sys.executable, "-m", "minigpt", "launch", "--workers", str(workers)),
            *("--", "train", *arguments),
        ],
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=str(PROJECT)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell without job control has programs in the background ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def children(process: subprocess.Popen) -> list[int]:
    """Returns the workers of `minigpt launch`, in their order; [] if it has ended."""
    tasks = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not Path("/proc/self/task").is_dir():
        pytest.skip("needs /proc/PID/task/PID/children, to find the workers")
    try:
        return [int(pid) for pid in tasks.read_text().split()]
    except FileNotFoundError:
        return []


def newest_step(run: Path) -> int:
    """Returns the step of the newest checkpoint; -1 if there is none."""
    found = checkpoint_paths(run / "checkpoints")
    return int(found[-1].name.split("-")[1]) if found else -1


def wait_for_step(run: Path, step: int) -> None:
    end = time.monotonic() + 120
    while newest_step(run) < step:
        assert time.monotonic() < end, "no checkpoint"
        time.sleep(0.05)
