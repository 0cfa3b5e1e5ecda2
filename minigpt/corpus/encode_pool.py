"""Encodes the texts of a large corpus in several processes.

The processes are started as programs, not with `multiprocessing`: that would run the user's script again if
it has no `if __name__ == "__main__"`. They read groups of texts from a pipe and write ids to another one.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np

from minigpt.corpus.token_ids import Group, encode_group
from minigpt.environment import available_cores
from minigpt.errors import UserError
from minigpt.tokenizers.base import Tokenizer

# What is printed goes to standard error: only ids go to the pipe.
# The modules are found where this process finds them.
_PROGRAM = (
    "import os, sys; output = os.dup(1); os.dup2(2, 1); sys.path[:] = sys.argv[2:]; "
    "from minigpt.corpus.encode_pool import main; main(output)"
)
# Threads of libraries would take memory and not be faster.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def encode_in_processes(groups: Iterator[Group], folder: Path) -> Iterator[np.ndarray]:
    """Encodes groups of texts with a saved tokenizer, on all cores.

    Args:
      groups: one group is read ahead for each process.
      folder: of the tokenizer.
    Yields:
      the ids of each group, in order; see `encode_group`.
    Raises:
      UserError: a process ended.
    """
    path = [entry or os.getcwd() for entry in sys.path]
    command = [sys.executable, "-c", _PROGRAM, str(folder), *path]
    count, workers = 0, list[Any]()
    with ExitStack() as stack:
        for _ in range(available_cores()):
            # In its own process group, it gets no Ctrl-C from a terminal.
            worker = subprocess.Popen(
                command, stdin=PIPE, stdout=PIPE, env=os.environ | _ENVIRONMENT, process_group=0
            )
            stack.callback(worker.wait)
            stack.callback(worker.kill)
            workers.append(worker)
        # Each process has one group at a time, so no pipe is full on both sides.
        for count, group in enumerate(groups, 1):
            worker = workers[count % len(workers)]
            if count > len(workers):
                yield _received(worker)
            with suppress(BrokenPipeError):  # Then nothing is received.
                pickle.dump(group, worker.stdin)
                worker.stdin.flush()
        for number in range(max(count - len(workers), 0), count):
            yield _received(workers[(number + 1) % len(workers)])


def _received(worker: Any) -> np.ndarray:
    try:
        return pickle.load(worker.stdout)
    except Exception:  # Bytes that are not a pickle can raise any exception.
        # This does not change the status of a process that has ended.
        worker.kill()
        problem = f"a process that tokenizes the text ended with status {worker.wait()}"
        raise UserError(problem) from None


def main(descriptor: int) -> None:
    """Encodes the groups of standard input with the tokenizer in the folder `sys.argv[1]`.

    Args:
      descriptor: where the ids of each group are written.
    """
    tokenizer = Tokenizer.load(Path(sys.argv[1]))
    # The other end of a pipe is closed when the first process has ended, however it did.
    with suppress(EOFError, BrokenPipeError), open(descriptor, "wb", closefd=False) as output:
        while True:
            pickle.dump(encode_group(tokenizer, pickle.load(sys.stdin.buffer)), output)
            output.flush()
