"""One process at a time trains in a run directory."""

import errno
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
            pytest.raises(UserError, match=f"{tmp_path.name}.*another process"),
            run_lock(tmp_path),
        ):
            pass
        assert holder.poll() is None
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with run_lock(tmp_path):
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path) and not is_locked(tmp_path / "missing")
    with run_lock(tmp_path):
        pass


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    """In a run from someone else, it may lead to any file."""
    target = tmp_path / "target"
    (tmp_path / "lock").symlink_to(target)
    for content in (None, b"kept"):
        if content:
            target.write_bytes(content)
        with pytest.raises(UserError), run_lock(tmp_path):
            pass
        assert not is_locked(tmp_path)
        assert (target.read_bytes() if content else target.exists() or None) == content


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EIO])
def test_a_run_whose_lock_cannot_be_written(number, tmp_path, monkeypatch):
    """In a shared folder, the lock file may be another user's."""

    def fail(self):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock.FileLock, "acquire", fail)
    with pytest.raises(UserError, match="cannot be written"), run_lock(tmp_path):
        pass
    if number == errno.EIO:
        with pytest.raises(UserError), run_lock(tmp_path, if_writable=True):
            pass
    else:
        with run_lock(tmp_path, if_writable=True):
            pass
