"""Run directories that are read-only, locked or removed; faults of clock, memory and loss."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from minigpt.runs.lock import run_lock
from tests.faults.chain import Chain
from tests.faults.warm import Warm

Tally = Callable[..., None]


@pytest.fixture
def copied(undisturbed: Chain, faults_folder: Path, request: pytest.FixtureRequest) -> Chain:
    """A copy of a finished training that is not exported yet."""
    folder = faults_folder / request.node.name
    chain = Chain(undisturbed.warm, folder, no_export=True)
    shutil.copytree(undisturbed.path, chain.path)
    return chain


def test_two_processes_on_one_run(copied: Chain, tally: Tally):
    with run_lock(copied.path):
        ended = copied.go_on()
    assert ended.is_one_clear_line
    assert "run" in ended.err and "another process" in ended.err
    assert copied.go_on().status == 0
    tally(rounds=2, faults=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("mkdir run/checkpoints/.scratch", errno.EROFS),
        ("write run/metrics.jsonl #1", errno.EACCES),
    ],
    ids=["read-only", "denied"],
)
def test_a_run_that_becomes_read_only(
    name: str, number: int, warm: Warm, faults_folder: Path, undisturbed: Chain, tally: Tally
):
    """Every change of the run fails after a certain operation."""
    chain = Chain(warm, faults_folder / f"errno-{number}", no_export=True)
    ended = chain.go_on(full_from=name, errno=number)
    assert ended.is_one_clear_line, (ended.err, ended.out[-300:])
    assert f"run: cannot be written: {os.strerror(number)}; " in ended.err
    assert chain.go_on().status == 0
    tally(rounds=2, faults=1)
    chain.assert_ended_like(undisturbed)


@pytest.mark.slow
def test_permission_denied(copied: Chain, tally: Tally):
    """A process of root gives up its privileges, with which every access is permitted."""
    path = copied.path
    (path / "lock").chmod(0o444)
    for folder in [path, *filter(Path.is_dir, path.rglob("*"))]:
        folder.chmod(0o555)
    before = sorted(path.rglob("*"))
    try:
        for arguments, words in [
            (["--resume", path], f"--resume {path}: cannot be written: Permission denied"),
            (["--run", path / "new"], f"--run {path / 'new'}: {path} cannot be written to"),
        ]:
            ended = copied.warm.run(["train", *arguments], path.parent, no_privileges=True)
            assert ended.is_one_clear_line and words in ended.err, ended
        assert sorted(path.rglob("*")) == before
    finally:
        for folder in [path, *filter(Path.is_dir, path.rglob("*"))]:
            folder.chmod(0o755)
    tally(rounds=2, faults=2)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("open run/samples.jsonl", marks=pytest.mark.slow),
        "mkdir run/checkpoints/.scratch",
    ],
)
def test_a_run_that_is_removed_during_the_training(
    name: str, warm: Warm, faults_folder: Path, tally: Tally
):
    folder = faults_folder / f"removed-{name.split('/')[-1]}"
    chain = Chain(warm, folder, no_export=True)
    ended = chain.go_on(remove_before=name, removed=str(chain.path))
    assert ended.is_one_clear_line, (ended.err, ended.out[-300:])
    assert (
        "run: cannot be written: No such file or directory; the run was removed or renamed;"
        in ended.err
    )
    assert not chain.path.exists()
    tally(rounds=1, faults=1)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e10, pytest.param(1e38, marks=pytest.mark.slow)])
def test_a_loss_that_diverges(rate: float, warm: Warm, faults_folder: Path, tally: Tally):
    chain = Chain(warm, faults_folder / f"rate-{rate:g}", no_export=True)
    ended = warm.run(
        [
            *("train", "--config", "chosen.toml", "--run", "run"),
            *("--set", f"training.learning_rate={rate}", "--set", "training.optimizer=sgd"),
            *("--set", "training.checkpoint_every_steps=1"),
        ],
        chain.folder,
    )
    assert ended.is_one_clear_line, (ended.err, ended.out[-300:])
    assert f"training.learning_rate = {rate:g}: the loss is " in ended.err
    assert " at step " in ended.err and "check the text" in ended.err
    # Reads every checkpoint. A state that is nan or infinite is never saved.
    chain.check()
    tally(rounds=1, faults=1)


@pytest.mark.slow
def test_a_small_disk(warm: Warm, faults_folder: Path, undisturbed: Chain, tally: Tally):
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
    tally(rounds=3, faults=2)
    chain.assert_ended_like(undisturbed)
