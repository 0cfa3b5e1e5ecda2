"""Running commands: in a process of their own, or in this one, which is faster."""

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from unittest import mock

import pytest

from minigpt.cli.program import run_command


def minigpt(*arguments, cwd=None, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "minigpt", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        **options,
    )


@contextlib.contextmanager
def started(*arguments, cwd) -> Iterator[subprocess.Popen]:
    """Starts a command, and kills it if it has not ended by the end of the block.

    SIGINT has its usual effect, even where the tests run in the background of a shell, which ignores it.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "minigpt", *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        process.kill()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def called(
    *arguments, cwd=None, input: str | bytes = "", output: io.StringIO | None = None
) -> subprocess.CompletedProcess:
    """Runs a command in this process, which has imported TensorFlow. `output` is standard output."""
    out, err = output or io.StringIO(), io.StringIO()
    command = ["minigpt", *map(str, arguments)]
    typed = input.encode() if isinstance(input, str) else input
    with (
        contextlib.chdir(cwd or "."),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed))),
        mock.patch.object(sys, "argv", command),
        pytest.raises(SystemExit) as ended,
    ):
        run_command()
    status = ended.value.code or 0
    return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())


def refused(*arguments, cwd) -> list[str]:
    """Returns the error messages of a command that must be refused."""
    done = called(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stderr
    return done.stderr.splitlines()


SMALL = [
    f"--set={setting}"
    for setting in (
        "model.max_len=16",
        "model.embed_dim=16",
        "model.num_heads=2",
        "model.num_layers=1",
        "training.epochs=2",
        "training.steps_per_epoch=10",
        "training.batch_size=8",
        "sampling.max_new_tokens=10",
    )
]
