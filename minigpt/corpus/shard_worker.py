"""A process that writes shards of a token store. `shard_processes` starts it.

It reads the settings of `WorkerSettings` as one line of JSON from standard input, and then jobs: a line of
JSON and the bytes of `Shard.pieces`. It answers each job with lines of JSON on standard output: `n_bytes`
that are done, any number of times, and at last the error or an empty object. It ends when standard input
ends, also within a shard: then the process that started it is gone.
"""

import json
import mmap
import os
import queue
import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from minigpt.corpus.shards import Shard, write_shard
from minigpt.errors import UserError
from minigpt.tokenizers import load_tokenizer

# Fewer characters than `grouping.GROUP_SIZE`: each process encodes on one core.
GROUP_CHARACTERS = 500_000


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker needs for all shards.

    Attributes:
      folder: the unfinished store; its tokenizer is used.
      descriptor: of the file of the text.
      text_bytes: length of the text.
    """

    folder: str
    descriptor: int
    text_bytes: int


def main() -> None:
    """Writes shards until standard input ends."""
    jobs: queue.SimpleQueue[Shard] = queue.SimpleQueue()
    source = sys.stdin.buffer
    settings = WorkerSettings(**json.loads(source.readline()))
    threading.Thread(target=_read_jobs, args=(source, jobs), daemon=True).start()
    text = mmap.mmap(settings.descriptor, settings.text_bytes, access=mmap.ACCESS_READ)
    tokenizer = None
    while True:
        shard = jobs.get()
        answer: dict[str, Any] = {}
        try:
            tokenizer = tokenizer or load_tokenizer(Path(settings.folder) / "tokenizer")
            write_shard(Path(settings.folder), shard, text, tokenizer, GROUP_CHARACTERS, _report)
        except OSError as error:
            answer = {"os_error": [error.errno, error.strerror, error.filename]}
        except UserError as error:
            answer = {"problems": error.problems}
        except Exception:
            answer = {"traceback": traceback.format_exc()}
        print(json.dumps(answer, default=str), flush=True)


def _report(n_bytes: int) -> None:
    print(json.dumps({"n_bytes": n_bytes}), flush=True)


def _read_jobs(source: IO[bytes], jobs: "queue.SimpleQueue[Shard]") -> None:
    try:
        while line := source.readline():
            job = json.loads(line)
            pieces = np.frombuffer(source.read(job["n_bytes"]), np.int64).reshape(-1, 3)
            jobs.put(Shard(job["name"], pieces, job["begins_part"]))
    finally:
        # Not sys.exit, which would end this thread only.
        os._exit(0)
