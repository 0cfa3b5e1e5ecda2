"""Writes the shards of a token store in several processes.

The processes are started as programs, not with `multiprocessing`: that would run the user's script again if
it has no `if __name__ == "__main__"`.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path

from minigpt.corpus.documents import Documents
from minigpt.corpus.shard_worker import WorkerSettings
from minigpt.corpus.shards import Shard, write_shard
from minigpt.corpus.token_ids import ENCODE_CHARACTERS
from minigpt.errors import UserError
from minigpt.tokenizers import Tokenizer

# The modules are found where this process finds them.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; from minigpt.corpus.shard_worker import main; main()"
)
# Each process computes on one core. Threads of libraries would only need memory.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def write_shards(
    folder: Path,
    shards: Iterable[Shard],
    documents: Documents,
    tokenizer: Tokenizer,
    processes: int,
    progress: Callable[[int], object],
) -> None:
    """Writes shards in several processes, which end before this function does, whatever ends it.

    Args:
      folder: the unfinished store, which contains the tokenizer.
      shards: what to write; iterated over as the processes need it.
      documents: any documents of the text.
      tokenizer: encodes the text where no process can be started.
      processes: their largest number.
      progress: called with bytes of text that are done, from several threads.
    Raises:
      UserError: a process was killed.
      OSError: a file cannot be written.
    """
    if documents.file is None or not _can_start_python():
        for shard in shards:
            write_shard(folder, shard, documents.text, tokenizer, ENCODE_CHARACTERS, progress)
        return
    settings = WorkerSettings(str(folder), documents.file.descriptor, len(documents.text))
    idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
    started: list[_Process] = []
    running: set[Future[None]] = set()

    def write(shard: Shard) -> None:
        process = idle.get()
        process.write(shard, progress)
        idle.put(process)

    with ThreadPoolExecutor(processes) as pool:
        try:
            for shard in shards:
                if len(started) < processes:
                    started.append(_Process(settings))
                    idle.put(started[-1])
                running.add(pool.submit(write, shard))
                if len(running) == processes:
                    running = _wait(running, FIRST_COMPLETED)
            _wait(running, FIRST_EXCEPTION)
        finally:
            # The threads of the pool then read the end of the answers.
            for process in started:
                process.end()


def _wait(running: set[Future[None]], until: str) -> set[Future[None]]:
    """Waits for some of the shards; returns those that are not finished."""
    done, rest = wait(running, return_when=until)
    for future in done:
        future.result()
    return rest


def _can_start_python() -> bool:
    # In a frozen application, the executable is the application.
    return bool(sys.executable) and not getattr(sys, "frozen", False)


class _Process:
    """One process that writes shards, in a group of its own: a terminal sends it no Ctrl-C."""

    def __init__(self, settings: WorkerSettings) -> None:
        paths = [path or os.getcwd() for path in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _ENVIRONMENT,
            pass_fds=[settings.descriptor],
            process_group=0,
        )
        assert self._process.stdin and self._process.stdout
        self._jobs, self._answers = self._process.stdin, self._process.stdout
        self._send(json.dumps(asdict(settings)).encode() + b"\n")

    def write(self, shard: Shard, progress: Callable[[int], object]) -> None:
        """Waits until a shard is written.

        Args:
          shard: what to write.
          progress: called with the number of bytes that are done, often.
        Raises:
          UserError, OSError: as `write_shards`.
        """
        pieces = shard.pieces.tobytes()
        job = {"name": shard.name, "begins_part": shard.begins_part, "n_bytes": len(pieces)}
        self._send(json.dumps(job).encode() + b"\n" + pieces)
        while True:
            line = self._answers.readline()
            if not line.endswith(b"\n"):
                raise self._ended()
            answer = json.loads(line)
            if "n_bytes" not in answer:
                break
            progress(answer["n_bytes"])
        if "os_error" in answer:
            raise OSError(*answer["os_error"])
        if "problems" in answer:
            raise UserError(*answer["problems"])
        if "traceback" in answer:
            raise RuntimeError(f"{shard.name}: a process failed:\n{answer['traceback']}")

    def end(self) -> None:
        """Kills the process if it still runs. What it has not finished is not there."""
        self._process.kill()
        self._process.wait()
        self._answers.close()
        # Closing sends what is left of a job.
        with contextlib.suppress(BrokenPipeError):
            self._jobs.close()

    def _send(self, data: bytes) -> None:
        try:
            self._jobs.write(data)
            self._jobs.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _ended(self) -> UserError:
        status = self._process.wait()
        cause = f"by signal {-status}" if status < 0 else f"with status {status}"
        return UserError(
            f"a process that tokenizes the text ended {cause}; is there enough memory? The same "
            "command continues with the finished shards"
        )
