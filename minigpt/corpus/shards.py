"""Tokenizes a large text in several processes: each writes the ids of a part of it, a shard, to a file.

The processes are started as programs, not with `multiprocessing`: that would run the user's script again if
it has no `if __name__ == "__main__"`. A shard is written atomically, under a name that depends on its text
and the tokenizer. So an interrupted call can be repeated, and keeps the shards that are there.
"""

import hashlib
import logging
import mmap
import os
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from minigpt.corpus.documents import Documents, format_size
from minigpt.corpus.token_ids import (
    ENCODE_CHARACTERS,
    Progress,
    encode_pieces,
    ids_dtype,
    write_first_id,
)
from minigpt.environment import available_cores
from minigpt.errors import UserError
from minigpt.storage.atomic import atomic_file
from minigpt.tokenizers import Tokenizer, load_tokenizer

# Bytes of text in a shard. A text up to this size is tokenized without other processes.
SHARD_BYTES = 2**25
# Fewer characters than `grouping.GROUP_SIZE`: each process encodes on one core.
_GROUP_CHARACTERS = 500_000
# The modules are found where this process finds them.
_PROGRAM = "import sys; sys.path[:] = sys.argv[2:]; from minigpt.corpus.shards import main; main()"
# Threads of libraries would take memory and not be faster.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# Ids that are copied and counted at once.
_CHUNK = 1 << 22

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shard:
    """A part of a text whose ids are one file.

    Attributes:
      number: from 0.
      pieces: int64[P, 3], first byte and end of each piece in the text, and whether it ends a document.
    """

    number: int
    pieces: np.ndarray

    @property
    def bytes(self) -> int:
        return int((self.pieces[:, 1] - self.pieces[:, 0]).sum())

    def path(self, folder: Path, tokenizer: Tokenizer) -> Path:
        """Returns the path of its ids."""
        key = hashlib.sha256(tokenizer.fingerprint().encode() + self.pieces.tobytes()).hexdigest()
        return folder / f"{self.number:05d}-{key[:32]}.bin"


def shards(documents: Documents, shard_bytes: int) -> Iterator[Shard]:
    """Divides documents into shards of about `shard_bytes`, at the ends of pieces.

    The pieces are those that one process would encode, so the ids of all shards in order are the same.
    """
    number, seen, pieces = 0, 0, array("q")
    for start, stop, ends_document in documents.piece_spans():
        pieces.extend((start, stop, ends_document))
        seen += stop - start
        if seen >= shard_bytes:
            yield Shard(number, np.frombuffer(pieces, np.int64).reshape(-1, 3))
            number, seen, pieces = number + 1, 0, array("q")
    if pieces:
        yield Shard(number, np.frombuffer(pieces, np.int64).reshape(-1, 3))


def write_sharded_ids(
    file: IO[bytes], folder: Path, documents: Documents, tokenizer: Tokenizer, shard_bytes: int
) -> np.ndarray:
    """Writes the ids of documents, as `token_ids.write_ids` does, in several processes.

    Args:
      file: to write to.
      folder: for the shards; what an interrupted call has left there is used. It stays: the caller removes
        it when the ids are on the disk.
      documents: of a text in a file.
      tokenizer: encodes them.
      shard_bytes: bytes of text in a shard.
    Returns:
      How often each token is a target, int64[V].
    Raises:
      UserError: a process failed or was killed.
      OSError: a file cannot be written.
    """
    folder.mkdir(exist_ok=True)
    tokenizer.save(folder / "tokenizer")
    if finished := len(list(folder.glob("*.bin"))):
        logger.info("%d shards are there from an earlier start", finished)
    _write_shards(folder, documents, tokenizer, shard_bytes)
    write_first_id(file, tokenizer)
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    for shard in shards(documents, shard_bytes):
        ids = np.memmap(shard.path(folder, tokenizer), ids_dtype(tokenizer), mode="r")
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK]
            counts += np.bincount(chunk, minlength=len(counts))
            file.write(chunk.tobytes())
    return counts


def _write_shards(
    folder: Path, documents: Documents, tokenizer: Tokenizer, shard_bytes: int
) -> None:
    """Writes the missing shards; each thread of a pool starts one process after the other."""
    remaining, lock = shards(documents, shard_bytes), threading.Lock()
    running = _Processes()
    progress = Progress(documents.bytes)

    def work() -> None:
        while True:
            with lock:
                shard = None if running.are_killed else next(remaining, None)
            if shard is None:
                return
            path = shard.path(folder, tokenizer)
            if not path.exists():
                np.save(path.with_suffix(".npy"), shard.pieces)
                if documents.file is None or not _can_start_python():
                    _write_shard(path, documents.text, tokenizer, ENCODE_CHARACTERS)
                else:
                    _run_process(path, documents.file.descriptor, running)
            progress.add(shard.bytes)

    size, processes = format_size(documents.bytes), available_cores()
    logger.info("tokenizing %s in %d processes", size, processes)
    with ThreadPoolExecutor(processes) as pool:
        try:
            for future in as_completed([pool.submit(work) for _ in range(processes)]):
                future.result()
        except BaseException:
            running.kill()
            raise


class _Processes:
    """The running processes.

    Attributes:
      are_killed: whether `kill` was called.
    """

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self.are_killed = False

    def add(self, process: "subprocess.Popen[bytes]") -> None:
        self._running.add(process)
        # It may have started just before the call of `kill`.
        if self.are_killed:
            process.kill()

    def discard(self, process: "subprocess.Popen[bytes]") -> None:
        self._running.discard(process)

    def kill(self) -> None:
        self.are_killed = True
        for process in list(self._running):
            process.kill()


def _can_start_python() -> bool:
    # In a frozen application, the executable is the application.
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def _run_process(path: Path, text: int, running: _Processes) -> None:
    """Writes a shard in a process, which reads the text from its standard input.

    Args:
      path: of the ids.
      text: the descriptor of the text.
      running: contains the process as long as it runs.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, path, *(entry or os.getcwd() for entry in sys.path)],
        stdin=text,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | _ENVIRONMENT,
        # In its own process group, it gets no Ctrl-C from a terminal.
        process_group=0,
    )
    running.add(process)
    error = process.communicate()[1].decode(errors="replace").strip()
    running.discard(process)
    if process.returncode < 0:
        reason = f"was killed by signal {-process.returncode} (is there enough memory?)"
    else:
        reason = f"failed: {error.splitlines()[-1] if error else process.returncode}"
    if process.returncode:
        raise UserError(
            f"a process that tokenizes the text {reason}; the same command continues with the finished "
            "shards"
        )


def main() -> None:
    """Writes the shard that the first argument of the program names."""
    path = Path(sys.argv[1])
    text = mmap.mmap(sys.stdin.fileno(), 0, access=mmap.ACCESS_READ)
    _write_shard(path, text, load_tokenizer(path.parent / "tokenizer"), _GROUP_CHARACTERS)


def _write_shard(path: Path, text: mmap.mmap, tokenizer: Tokenizer, group_characters: int) -> None:
    """Writes the ids of the pieces in the file NAME.npy to NAME.bin."""
    spans = np.load(path.with_suffix(".npy"), mmap_mode="r")
    pieces = ((text[start:stop].decode(), bool(ends)) for start, stop, ends in spans)
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    with atomic_file(path) as unfinished, open(unfinished, "wb") as file:
        for _ in encode_pieces(file, pieces, tokenizer, counts, group_characters):
            pass
    if hasattr(mmap, "MADV_DONTNEED"):
        text.madvise(mmap.MADV_DONTNEED)
