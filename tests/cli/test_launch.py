"""`minigpt launch`: its errors. What it launches is tested in tests/distribution."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import called


def launch(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "minigpt", "launch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


@pytest.mark.parametrize("dashes", [("--",), ()])
def test_an_error_of_all_workers_is_printed_once(dashes):
    ended = launch("--workers", "3", *dashes, "train", "--config", "nosuch")
    assert ended.returncode == 2
    assert ended.stderr.startswith("minigpt: --config nosuch: ")
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stdout == ""


def test_gpus_are_divided_among_the_workers(monkeypatch):
    from minigpt.distribution.launch import worker_environment

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7,8")
    addresses = ["a:1", "b:2"]
    shares = [worker_environment(addresses, index)["CUDA_VISIBLE_DEVICES"] for index in range(2)]
    assert shares == ["4,5", "6,7"]
    for none in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert "CUDA_VISIBLE_DEVICES" not in worker_environment(addresses, 0)


def test_more_workers_than_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    ended = launch("--", "train")
    assert ended.returncode == 2
    assert ended.stderr.startswith("minigpt: --workers 2: should be at most 1, the number of GPUs")


@pytest.mark.parametrize("option", [["--text", "-"], ["--text=-"]])
def test_workers_read_a_copy_of_standard_input(option, monkeypatch, tmp_path):
    from minigpt.cli import launch as command
    from minigpt.corpus.text_files import standard_input

    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path))
    launched = []
    monkeypatch.setattr(command, "launch_workers", lambda *given: launched.append(given) or [0, 0])
    standard_input.cache_clear()
    arguments = ["train", "--config", "-", *option, "--set", "training.epochs=1"]
    done = called("launch", "--workers", "2", "--", *arguments, input="Ana sat.")
    assert done.returncode == 0, done.stderr
    ((given, workers),) = launched
    path = given[-3].removeprefix("--text=")
    assert (workers, Path(path).read_text()) == (2, "Ana sat.")
    expected = [
        argument if argument != "-" or n < 3 else path for n, argument in enumerate(arguments)
    ]
    assert given == [f"--text={path}" if a == "--text=-" else a for a in expected]
    standard_input.cache_clear()


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_do_not_share_standard_input(workers, monkeypatch):
    """Otherwise each would read a part of it, for `--set data.paths=["-"]`; now it is empty for all."""
    from minigpt.distribution import launch as launching

    def started(command, *, stdin, **options):
        raise InterruptedError(stdin)

    monkeypatch.setattr(launching.subprocess, "Popen", started)
    with pytest.raises(InterruptedError) as found:
        launching.launch(["train"], workers)
    assert found.value.args == (subprocess.DEVNULL if workers > 1 else None,)
