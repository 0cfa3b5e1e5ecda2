"""Runs whose workers are killed again and again end with the bytes of undisturbed ones."""

import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import minigpt
from minigpt.config import dump_config, load_config
from minigpt.runs.checkpoints import read_checkpoint
from minigpt.runs.layout import checkpoint_paths
from tests.conftest import tiny_settings
from tests.distribution.launching import children, launch, newest_step
from tests.distribution.processes import outputs
from tests.same_runs import assert_same, lines

KILLS = 25
TRAINING = {
    "epochs": 2,
    "steps_per_epoch": 150,
    "checkpoint_every_steps": 5,
    "deterministic": True,
}
SETTINGS = {"model": {"num_layers": 1, "dropout_rate": 0.1}, "sampling": {"max_new_tokens": 3}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_file) -> Path:
    folder = tmp_path_factory.mktemp("kills")
    settings = tiny_settings(tiny_file, training=TRAINING, **SETTINGS)
    (folder / "chosen.toml").write_text(dump_config(load_config(settings)), encoding="utf-8")
    return folder


def start(run: Path, workers: int) -> subprocess.Popen:
    """Trains or resumes; the runs have the same name, which they record."""
    run.parent.mkdir(exist_ok=True)
    arguments = ["--config", "../chosen.toml", "--run", run.name]
    if (run / "config.toml").is_file():
        arguments = ["--resume", run.name]
    return launch(run.parent, *arguments, workers=workers)


def check(run: Path) -> None:
    """Everything that can be seen is complete."""
    if not run.exists():
        return
    found = minigpt.Run(run)
    assert found.config and found.load_tokenizer()
    for path in checkpoint_paths(found.checkpoints_folder):
        read_checkpoint(path)
    if found.metrics_file.exists():
        epochs = [line["epoch"] for line in lines(found.metrics_file)]
        assert epochs == list(range(1, len(epochs) + 1))


# Of a signal that arrives while TensorFlow's C++ imports a module. The program ends as usual.
_LIBRARY_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n"
    r"  File \"[^\n]*/tensorflow/python/util/[^\n]*\n(?:    [^\n]*\n)+"
    r"SystemError: <built-in function __import__> returned a result with an exception set\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_killed_workers_lose_nothing(folder, workers):
    """A random worker is killed at a random moment, from its start on; KILLS times."""
    draw = random.Random(workers)
    undisturbed = folder / f"undisturbed{workers}/run"
    [(_, err)] = outputs([start(undisturbed, workers)])
    assert minigpt.Run(undisturbed).model_file.is_file(), err
    kills = chains = 0
    while kills < KILLS:
        chains += 1
        run = folder / f"chain{workers}-{chains}/run"
        while not (run / "model.keras").is_file():
            before = newest_step(run)
            process = start(run, workers)
            end = time.monotonic() + draw.uniform(2, 40)
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            victim, began = draw.randrange(workers), time.monotonic()
            running = process.poll() is None and len(found := children(process)) == workers
            if running and kills < KILLS:
                os.kill(found[victim], signal.SIGKILL)
                kills += 1
            [(out, err)] = outputs([process])
            if process.returncode:
                # The first few seconds are those of imports; nobody is connected.
                assert time.monotonic() - began < 60, (out, err)
                assert f"worker {victim}" in err
                assert "Traceback" not in _LIBRARY_TRACEBACK.sub("", err), err
            assert newest_step(run) >= before
            check(run)
        assert_same(minigpt.Run(run), minigpt.Run(undisturbed))
