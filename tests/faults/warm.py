"""A process that imports TensorFlow, does not use it, and forks a process for every job.

An import takes seconds, a fork almost no time. A forked process can be killed and holds its own locks. A
job is a line of JSON on standard input, its result a line on standard output.
"""

import errno
import importlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigpt.environment import hide_tensorflow_log
from tests.faults.operations import NEEDS_SPACE, watched

# Far more than any job needs, on a busy machine too.
MAX_SECONDS = 900


@dataclass(frozen=True)
class Ended:
    """How a job ended.

    Attributes:
      status: its exit status; -9 if it was killed.
      hung: whether it was killed because it did not end.
      out, err: its standard output and standard error.
      operations: its file operations; the last one is where it was stopped.
    """

    status: int
    hung: bool
    out: str
    err: str
    operations: list[str]

    @property
    def was_killed(self) -> bool:
        return self.status == -signal.SIGKILL and not self.hung

    @property
    def is_one_clear_line(self) -> bool:
        """Whether it ended with a message of the command line, and nothing else on standard error."""
        lines = self.err.splitlines()
        return self.status == 2 and bool(lines) and all(x.startswith("minigpt: ") for x in lines)


class Warm:
    """Runs `minigpt` commands in forked processes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def __enter__(self) -> "Warm":
        return self

    def __exit__(self, *_: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(MAX_SECONDS)

    def run(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        watch: Sequence[Path] = (),
        kill_before: str | None = None,
        full_from: str | None = None,
        **more: Any,
    ) -> Ended:
        """Runs a job to its end.

        Args:
          command: arguments of `minigpt`.
          folder: its working directory, which also contains its cache folder.
          watch: the folders whose operations are observed.
          kill_before: the operation before which it is killed.
          full_from: the first operation that finds the disk full.
          **more: options of `_prepare` and `_fault`.
        """
        job = {
            "command": command,
            "folder": str(folder),
            "watch": [str(folder) for folder in watch],
            "kill_before": kill_before,
            "full_from": full_from,
            **more,
        }
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


def _serve() -> None:
    # Everything that training imports, so that forked processes do not import it again.
    for name in (
        "cli.program",
        "training.pipeline",
        "generation.text_models",
        "evaluation",
    ):
        importlib.import_module(f"minigpt.{name}")
    importlib.import_module("tensorflow_text")
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)
    os._exit(0)  # TensorFlow takes long to shut down.


def _run(job: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        names = {name: Path(folder) / name for name in ("out", "err", "operations")}
        for path in names.values():
            path.touch()
        child = os.fork()
        if not child:
            _be_the_job(job, names)
        hung = _hangs(child)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        read = {name: path.read_text("utf-8", "replace") for name, path in names.items()}
    operations = read.pop("operations").splitlines()
    return {"status": status, "hung": hung, "operations": operations, **read}


def _hangs(child: int) -> bool:
    """Waits for a job; returns whether it did not end and was killed."""
    handle = os.pidfd_open(child)
    try:
        ended, _, _ = select.select([handle], [], [], MAX_SECONDS)
        if not ended:
            os.kill(child, signal.SIGKILL)
        return not ended
    finally:
        os.close(handle)


def _be_the_job(job: dict[str, Any], names: dict[str, Path]) -> None:
    """Never returns."""
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(names[name], os.O_WRONLY | os.O_APPEND), number)
        log = os.open(names["operations"], os.O_WRONLY | os.O_APPEND)
        os.chdir(job["folder"])
        os.environ["MINIGPT_CACHE"] = os.path.join(job["folder"], "cache")
        _prepare(job)
        before = _fault(job, lambda name: os.write(log, f"{name}\n".encode()))
        folders = [Path(folder) for folder in job["watch"]]
        with watched(folders, before) if folders else nullcontext():
            sys.argv = ["minigpt", *job["command"]]
            from minigpt.__main__ import main

            main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else bool(end.code)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _prepare(job: dict[str, Any]) -> None:
    """Changes what the job asks for, in its process."""
    with hide_tensorflow_log():
        # Logs that it finds no GPU. The program hides that when it imports TensorFlow.
        sys.modules["tensorflow"].config.list_physical_devices("GPU")
    if job.get("no_export"):
        from minigpt.generation.step_models import CachedGPT
        from minigpt.training import pipeline
        from tests.settings import NEVER_COMPILED

        pipeline.export_best = lambda *_: {}
        # Compiling takes longer than generating so few tokens.
        CachedGPT.jit_compile = NEVER_COMPILED


def _fault(job: dict[str, Any], log: Callable[[str], Any]) -> Callable[[str], None]:
    """Returns the function that injects the job's fault."""
    is_full = False

    def before(name: str) -> None:
        nonlocal is_full
        log(name)
        if name == job["kill_before"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if name == job.get("remove_before"):
            shutil.rmtree(job["removed"])
        is_full = is_full or name == job["full_from"]
        if is_full and name.startswith(NEEDS_SPACE):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return before


if __name__ == "__main__":
    _serve()
