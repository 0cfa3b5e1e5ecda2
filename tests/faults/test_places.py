"""Run directories that are read-only or removed, and a small disk."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.chain import Chain
from tests.faults.warm import Warm


def test_a_run_that_is_removed_during_the_training(warm: Warm, faults_folder: Path):
    chain = Chain(warm, faults_folder / "removed", no_export=True)
    ended = chain.go_on(remove_before="mkdir run/checkpoints/.scratch", removed=str(chain.path))
    assert ended.is_one_clear_line, (ended.err, ended.out[-300:])
    assert (
        "run: cannot be written: No such file or directory; the run was removed or renamed;"
        in ended.err
    )
    assert not chain.path.exists()


@pytest.mark.slow
def test_a_small_disk(warm: Warm, faults_folder: Path, undisturbed: Chain):
    """A file system that is really full. With more space, the training resumes."""
    chain = Chain(warm, faults_folder / "small_disk", no_export=True)
    disk = chain.folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "none", disk], capture_output=True
    )
    if mounted.returncode:
        # Only root may mount. `test_trainings` simulates a full disk at every write.
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        (disk / "filler").write_bytes(b"")
        first = ["train", "--config", "chosen.toml", "--run", "disk/run"]
        ended = warm.run(first, chain.folder, no_export=True)
        assert ended.is_one_clear_line and "No space left on device" in ended.err, ended
        subprocess.run(["mount", "-o", "remount,size=9m", disk], check=True)
        command = ["train", "--resume", "disk/run"] if (disk / "run").exists() else first
        assert warm.run(command, chain.folder, no_export=True).status == 0
        shutil.copytree(disk / "run", chain.path)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        ended = warm.run(["train", "--resume", "disk/run"], chain.folder)
        assert ended.is_one_clear_line and "Read-only file system" in ended.err, ended
    finally:
        subprocess.run(["umount", disk], check=True)
    chain.assert_ended_like(undisturbed)
