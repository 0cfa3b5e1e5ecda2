"""Atomic writes: complete or absent, and no scratch folder stays."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from minigpt.storage.atomic import (
    atomic_file,
    atomic_folder,
    replace_file,
    scratch_folder,
)

KILLED = """
import os, sys
from pathlib import Path
from minigpt.storage.atomic import scratch_folder
with scratch_folder(Path(sys.argv[1])) as scratch:
    (scratch / "file").write_text("x")
    print(scratch, flush=True)
    sys.stdin.read()
"""


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def fail(*_, **__):
    raise OSError(28, "No space left on device")


def write_file(folder):
    replace_file(folder / "a", b"new")


def write_folder(folder, replace=False):
    with atomic_folder(folder / "a", replace) as unfinished:
        assert unfinished.name == "a"
        (unfinished / "x").write_bytes(b"new")


def test_a_file_is_created_and_replaced(tmp_path):
    for data in (b"old", b"new"):
        replace_file(tmp_path / "a", data)
        assert (tmp_path / "a").read_bytes() == data
    assert names(tmp_path) == ["a"]


def test_a_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    (tmp_path / "usual folder").mkdir()
    replace_file(tmp_path / "a", b"x")
    with atomic_folder(tmp_path / "b"):
        pass
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert (tmp_path / "b").stat().st_mode == (tmp_path / "usual folder").stat().st_mode


def test_a_folder_is_created_only_where_there_is_none(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "a/x").write_bytes(b"old")
    with pytest.raises(OSError):
        write_folder(tmp_path)
    assert (tmp_path / "a/x").read_bytes() == b"old"
    write_folder(tmp_path, replace=True)
    assert (tmp_path / "a/x").read_bytes() == b"new"
    assert names(tmp_path) == ["a", "a/x"]


@pytest.mark.parametrize("exists", ["empty", "file", "link"])
def test_what_a_new_folder_may_replace(exists, tmp_path):
    path = tmp_path / "a"
    if exists == "empty":
        path.mkdir()
        write_folder(tmp_path)
        assert names(tmp_path) == ["a", "a/x"]
        return
    path.write_text("old") if exists == "file" else path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        write_folder(tmp_path)
    assert names(tmp_path) == ["a"]
    write_folder(tmp_path, replace=True)
    assert names(tmp_path) == ["a", "a/x"] and not path.is_symlink()


@pytest.mark.parametrize(
    ("write", "function"),
    [
        (write_file, "fsync"),
        (write_file, "os.replace"),
        (write_folder, "fsync_all"),
        (write_folder, "Path.rename"),
    ],
)
def test_after_a_failure_the_old_content_stays_and_nothing_else(
    write, function, tmp_path, monkeypatch
):
    (tmp_path / "a").mkdir() if write is write_folder else replace_file(tmp_path / "a", b"old")
    monkeypatch.setattr(f"minigpt.storage.atomic.{function}", fail)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path)
    assert names(tmp_path) == ["a"]
    assert write is write_folder or (tmp_path / "a").read_bytes() == b"old"


def test_a_failed_replacement_restores_the_old_folder(tmp_path, monkeypatch):
    write_folder(tmp_path)
    (tmp_path / "a/x").write_bytes(b"old")
    rename = Path.rename

    def fail_once(source, target):
        if target == tmp_path / "a" and "replaced" not in source.parts:
            fail()
        return rename(source, target)

    monkeypatch.setattr("minigpt.storage.atomic.Path.rename", fail_once)
    with pytest.raises(OSError, match="No space"):
        write_folder(tmp_path, replace=True)
    assert (tmp_path / "a/x").read_bytes() == b"old" and names(tmp_path) == ["a", "a/x"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_exception_in_the_block_leaves_nothing(error, tmp_path):
    for writer in (atomic_file, atomic_folder):
        with pytest.raises(error), writer(tmp_path / "a"):
            raise error
    assert not names(tmp_path)


def test_scratch_folders_of_killed_processes_only_are_removed(tmp_path):
    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return process, process.stdout.readline().strip()

    killed, left = start()
    running, used = start()
    try:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        assert os.path.exists(left) and os.path.exists(used)
        with scratch_folder(tmp_path) as scratch:
            assert sorted(tmp_path.iterdir()) == sorted([scratch, Path(used)])
            replace_file(tmp_path / "a", b"x")
            assert scratch.exists()
    finally:
        running.communicate("")
    assert names(tmp_path) == ["a"]


def test_links_are_not_followed(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    (tmp_path / ".minigpt-1.tmp").symlink_to(tmp_path / "other")
    replace_file(tmp_path / "a", b"x")
    assert (tmp_path / "other/file").exists()


def test_the_directory_is_not_created(tmp_path):
    """A run that is removed during its training is not created again in parts."""
    for write in (write_file, write_folder):
        with pytest.raises(FileNotFoundError):
            write(tmp_path / "none")
    assert not names(tmp_path)


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr("filelock.FileLock.acquire", fail)
    with pytest.raises(OSError, match="No space"), scratch_folder(tmp_path):
        pass
    assert names(tmp_path) == []


@pytest.mark.parametrize("write", [write_file, write_folder], ids=["file", "folder"])
def test_contents_are_on_the_disk_before_they_have_their_name(write, tmp_path, monkeypatch):
    on_disk: list[tuple[int, bool]] = []
    fsync = os.fsync

    def noted(handle):
        on_disk.append((os.fstat(handle).st_ino, (tmp_path / "a").exists()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    write(tmp_path)
    written = [path.stat().st_ino for path in (tmp_path / "a", *(tmp_path / "a").rglob("*"))]
    assert {(number, False) for number in written} <= set(on_disk)
    # The name is in the folder, which is forced to the disk last.
    assert on_disk[-1] == (tmp_path.stat().st_ino, True)
