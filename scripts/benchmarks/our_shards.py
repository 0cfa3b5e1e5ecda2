"""Measures the tokenization of a large text into shards: time, and memory of every process over time."""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from benchmarks.measuring import Context, Outcome
from benchmarks.texts import write_text

_BASE_MEGABYTES = 20
_SECONDS_BETWEEN_SAMPLES = 0.1


def text_path(context: Context, megabytes: int) -> Path:
    return context.work / f"numbered-{megabytes}.txt"


def text(context: Context, megabytes: int) -> Outcome:
    """Writes a text whose documents are those of a short one again and again, each with a number."""
    path = text_path(context, megabytes)
    size, written, number = 1_000_000 * megabytes, 0, 0
    if not path.exists():
        base = write_text(context.work / "base.txt", 1_000_000 * min(_BASE_MEGABYTES, megabytes))
        documents = base.read_text(encoding="ascii").split("\n\n")
        with open(path.with_suffix(".part"), "w", encoding="ascii") as file:
            while written < size:
                numbers = range(number + 1, number + 1 + len(documents))
                numbered = zip(numbers, documents, strict=True)
                joined = "".join(f"Text {n}. {document}\n\n" for n, document in numbered)
                written += file.write(joined[: size - written])
                number += len(documents)
        path.with_suffix(".part").rename(path)
    return {"value": path.stat().st_size}


def tokenize(context: Context, megabytes: int, kill: bool) -> Outcome:
    """Measures megabytes per second from a text file to a token store, its tokenizer included.

    Args:
      kill: whether the process is killed when half of the shards are there, and started again.
    """
    cache = Path(mkdtemp(dir=context.work))
    command = [sys.executable, "-c", _OPEN, str(text_path(context, megabytes)), str(cache)]
    began = time.perf_counter()
    memory = Memory()
    finished: list[int] = []
    if kill:
        half = megabytes * 10**6 // _shard_bytes() // 2
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while first.poll() is None:
            memory.sample(first.pid)
            if len(_records(cache)) >= max(1, half):
                first.send_signal(signal.SIGKILL)
            time.sleep(_SECONDS_BETWEEN_SAMPLES)
        records = _records(cache)
        finished = [len(records)]
    restarted = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        again = 0
        while process.poll() is None:
            memory.sample(process.pid)
            if kill and (found := _records(cache)):
                again = sum(found.get(path, when) != when for path, when in records.items())
            time.sleep(_SECONDS_BETWEEN_SAMPLES)
        assert process.stdout
        answer = json.loads(process.stdout.read().splitlines()[-1])
    ended = time.perf_counter()
    same = subprocess.run([*command, "compare"], stdout=subprocess.PIPE, text=True, check=True)
    shutil.rmtree(cache)
    return {
        **answer,
        **json.loads(same.stdout.splitlines()[-1]),
        "value": megabytes / (ended - began),
        "memory": memory.most_together,
        "seconds": ended - began,
        "seconds_before_kill": restarted - began,
        "shards_before_kill": finished,
        "shards_written_again": again,
        "peaks": memory.peaks(),
        "over_time": memory.over_time(),
    }


def _shard_bytes() -> int:
    from minigpt.corpus.shards import SHARD_BYTES

    return SHARD_BYTES


def _records(cache: Path) -> dict[Path, int]:
    """Returns the files of the shards that are there, with the time when they were written."""
    found = {}
    for path in cache.glob("tokens/*.unfinished/shards-*/*.bin"):
        # The shards of a complete store are removed.
        with contextlib.suppress(FileNotFoundError):
            found[path] = path.stat().st_mtime_ns
    return found


class Memory:
    """The memory of a process and its children, in bytes, as Linux counts it."""

    def __init__(self) -> None:
        self.most_together = 0
        self._began = time.monotonic()
        # Process → its name, and (seconds, RssAnon, VmRSS) of each sample.
        self._samples: dict[int, tuple[str, list[tuple[float, int, int]]]] = {}
        self._names: dict[str, int] = {}

    def sample(self, parent: int) -> None:
        """Reads the memory of a process and its children now."""
        together = 0
        for pid in (parent, *_children(parent)):
            found = _status(pid)
            if found:
                if pid not in self._samples:
                    kind = "parent" if pid == parent else "worker"
                    self._names[kind] = self._names.get(kind, 0) + 1
                    self._samples[pid] = (f"{kind} {self._names[kind]}", [])
                self._samples[pid][1].append((time.monotonic() - self._began, *found))
                together += found[0]
        self.most_together = max(self.most_together, together)

    def peaks(self) -> dict[str, dict[str, int]]:
        """Returns the largest RssAnon and VmRSS of each process."""
        return {
            name: {"anonymous": max(s[1] for s in taken), "resident": max(s[2] for s in taken)}
            for name, taken in self._samples.values()
        }

    def over_time(self, count: int = 10) -> dict[str, list[tuple[int, int]]]:
        """Returns (second, RssAnon in MB) of each process, `count` times."""
        return {
            name: [
                (round(seconds), round(anonymous / 1e6))
                for seconds, anonymous, _ in taken[:: max(1, len(taken) // count)]
            ]
            for name, taken in self._samples.values()
        }


def _children(pid: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]
    except OSError:
        return []


def _status(pid: int) -> tuple[int, int] | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    fields: dict[str, Any] = dict(line.split(":", 1) for line in lines)
    if "RssAnon" not in fields:
        return None
    return tuple(1024 * int(fields[name].split()[0]) for name in ("RssAnon", "VmRSS"))  # type: ignore[return-value]


# Opens the corpus; with a third argument, compares a shard with its encoding in one process.
_OPEN = """
import json, logging, os, sys
os.environ["MINIGPT_CACHE"] = sys.argv[2]
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
import numpy as np
import minigpt
from minigpt.corpus.token_store import open_corpus
settings = minigpt.load_config("default").model_dump()
settings["data"] = {"source": "files", "paths": [sys.argv[1]], "document_separator": "\\n\\n"}
settings["tokenizer"] = {"kind": "byte_pair", "vocab_size": 8000}
config = minigpt.load_config(settings)
corpus = open_corpus(config.data, config.tokenizer)
from minigpt.corpus.shards import SHARD_BYTES
shards = -(-corpus.train.bytes // SHARD_BYTES)
if len(sys.argv) == 3:
    print(json.dumps({
        "tokens": corpus.train.tokens + corpus.val.tokens,
        "documents": corpus.train.documents + corpus.val.documents,
        "shards": shards,
    }))
else:
    from minigpt.corpus.split import split_corpus
    from minigpt.corpus.text_files import read_texts
    from minigpt.corpus.token_ids import encode_texts
    documents = split_corpus(read_texts([sys.argv[1]], "\\n\\n"), config.data)[0]
    ends = np.cumsum(documents.spans[:, 1] - documents.spans[:, 0])
    # The beginning of the text, up to somewhere in the second shard.
    count = int(np.searchsorted(ends, 1.2 * documents.bytes / shards))
    one = encode_texts(documents.select(np.arange(count)), corpus.tokenizer).ids
    print(json.dumps({"equal": bool(np.array_equal(one, corpus.train.ids[: len(one)])),
                      "compared": len(one)}))
"""
