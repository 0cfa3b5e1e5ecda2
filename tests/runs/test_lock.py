"""One process at a time trains in a run directory."""

import fcntl
import os
import signal
import subprocess
import sys

import pytest

from minigpt.errors import UserError
from minigpt.runs import lock
from minigpt.runs.lock import is_locked, run_lock

HOLDER = """
import sys, time
from pathlib import Path
from minigpt.runs.lock import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_another_process_is_refused_until_the_first_one_ends(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with (
            pytest.raises(UserError, match=f"is being trained by process {holder.pid}"),
            run_lock(tmp_path),
        ):
            pass
        assert holder.poll() is None
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with run_lock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    with run_lock(tmp_path):
        pass


def test_a_missing_folder(tmp_path):
    with (
        pytest.raises(UserError, match="cannot be written: No such file"),
        run_lock(tmp_path / "x"),
    ):
        pass


def test_asking_for_the_state_keeps_no_process_from_training(tmp_path, monkeypatch):
    with run_lock(tmp_path):
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
    # Another process asks while this one begins to train: it has the lock for a moment.
    with open(tmp_path / "lock") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH | fcntl.LOCK_NB)
        monkeypatch.setattr(lock.time, "sleep", lambda seconds: asking.close())
        with run_lock(tmp_path):
            assert is_locked(tmp_path)
    assert not is_locked(tmp_path / "missing")
