"""Processes that tokenize: killed, interrupted, failing, and left alone."""

import json
import os
import select
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from minigpt.corpus import shard_processes, token_store
from minigpt.corpus.shard_processes import _Process
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from minigpt.interrupts import Interrupted
from minigpt.storage import atomic
from tests.corpus.stores import CHARACTERS, TEXTS, files

pytestmark = pytest.mark.usefixtures("cache")
TEXT = [f"{text} {number}" for number in range(10) for text in TEXTS]
SHARD_BYTES = 200

# A user's script without `if __name__ == "__main__"`. Prints the number of shards that are there, and then
# waits for what the test does.
SCRIPT = textwrap.dedent("""
    import sys, threading
    from minigpt.corpus import shard_processes, token_store
    from tests.settings import data_config, tokenizer_config
    print("started", flush=True)
    write, lock, written = shard_processes._Process.write, threading.Lock(), []
    def write_some(process, shard, progress):
        with lock:
            if len(written) == 5:
                print("five", flush=True)
                sys.stdin.read()
            write(process, shard, progress)
            written.append(shard.name)
    shard_processes._Process.write = write_some
    token_store.open_corpus(
        data_config(source="files", paths=[sys.argv[1]], document_separator="|"),
        tokenizer_config(kind="character", vocab_size=100),
        shard_bytes=200,
    )
""")


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def end(process, number):
    process.send_signal(number)
    output = process.communicate(timeout=60)
    return process.returncode, *output


@pytest.fixture
def written(monkeypatch):
    """The names of the shards that this process has written."""
    names = []
    write = _Process.write

    def record(self, shard, progress):
        write(self, shard, progress)
        names.append(shard.name)

    monkeypatch.setattr(_Process, "write", record)
    return names


def test_killed_in_the_middle_and_started_again(tmp_path, cache, written, messages):
    data = files(tmp_path, TEXT)
    process = start(SCRIPT, data.paths[0])
    assert [process.stdout.readline() for _ in range(2)] == ["started\n", "five\n"]
    assert end(process, signal.SIGKILL)[0] == -signal.SIGKILL
    (unfinished,) = (cache / "tokens").iterdir()
    before = {path.stem: path.stat() for path in unfinished.glob("progress/*.json")}
    assert len(before) == 5
    ids = {name: (unfinished / name).stat() for name in before}

    corpus = open_corpus(data, CHARACTERS, shard_bytes=SHARD_BYTES)
    assert "5 shards are there from an earlier start" in messages()
    names = {path.name for path in corpus.path.glob("*.bin")}
    assert len(written) > 5 and sorted([*written, *before]) == sorted(names)
    for name, status in ids.items():
        assert (corpus.path / name).stat().st_ino == status.st_ino
    assert list((cache / "tokens").iterdir()) == [corpus.path]
    check_ids(corpus, data)


def check_ids(corpus, data):
    os.environ["MINIGPT_CACHE"] += "-whole"
    whole = open_corpus(data, CHARACTERS)
    assert isinstance(whole.train.ids, np.memmap)
    for one, other in ((corpus.train, whole.train), (corpus.val, whole.val)):
        np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(corpus.token_counts, whole.token_counts)


@pytest.mark.parametrize("how", ["garbage", "shorter", "other tokenizer", "no record", "no counts"])
def test_a_shard_that_is_not_intact_is_written_again(tmp_path, cache, monkeypatch, how):
    data, written = files(tmp_path, TEXT), []
    write = shard_processes.write_shard

    def write_some(folder, shard, *arguments):
        if len(written) == 5:
            raise KeyboardInterrupt
        write(folder, shard, *arguments)
        written.append(shard.name)

    monkeypatch.setattr(shard_processes, "_can_start_python", lambda: False)
    monkeypatch.setattr(shard_processes, "write_shard", write_some)
    with pytest.raises(Interrupted):
        open_corpus(data, CHARACTERS, shard_bytes=SHARD_BYTES)
    written[:] = ["none"] * 6
    (unfinished,) = (cache / "tokens").iterdir()
    record = min(unfinished.glob("progress/*.json"))
    path = unfinished / record.stem
    if how == "garbage":
        path.write_bytes(b"\0" * path.stat().st_size)
    elif how == "shorter":
        path.write_bytes(path.read_bytes()[:-2])
    elif how == "other tokenizer":
        record.write_text(json.dumps({**json.loads(record.read_text()), "key": "0" * 64}))
    elif how == "no record":
        record.write_bytes(record.read_bytes()[:10])
    else:
        record.with_suffix(".npy").write_bytes(b"")
    corpus = open_corpus(data, CHARACTERS, shard_bytes=SHARD_BYTES)
    assert path.name in written
    assert len(written[6:]) == len(list(corpus.path.glob("*.bin"))) - 4
    check_ids(corpus, data)


def test_killed_before_the_finished_store_is_published(tmp_path, cache, written, monkeypatch):
    data = files(tmp_path, TEXT)

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(token_store, "publish_folder", stop)
        with pytest.raises(KeyboardInterrupt):
            open_corpus(data, CHARACTERS, shard_bytes=SHARD_BYTES)
    assert len(written) > 5
    written.clear()
    corpus = open_corpus(data, CHARACTERS, shard_bytes=SHARD_BYTES)
    assert not written and list((cache / "tokens").iterdir()) == [corpus.path]


@pytest.fixture
def broken(monkeypatch):
    """Returns a function that makes the third shard fail in a given manner."""

    def broken(how):
        write, count = _Process.write, iter(range(1000))

        def write_or_break(self, shard, progress):
            if next(count) == 3:
                how(self, shard)
            write(self, shard, progress)

        monkeypatch.setattr(_Process, "write", write_or_break)

    return broken


def children():
    return subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True
    ).stdout.count("shard_worker")


def test_a_process_that_is_killed(tmp_path, cache, broken):
    def kill(process, shard):
        process._process.kill()
        process._process.wait()

    broken(kill)
    with pytest.raises(UserError, match=r"^a process that tokenizes.* signal 9;.* continues") as e:
        open_corpus(files(tmp_path, TEXT), CHARACTERS, shard_bytes=SHARD_BYTES)
    assert "\n" not in str(e.value) and not children()
    assert list(cache.glob("tokens/*.unfinished/progress/*.json"))


def test_an_error_in_a_process_is_the_error_of_one(tmp_path, cache, broken):
    def disturb(process, shard):
        (unfinished,) = cache.glob("tokens/*.unfinished")
        (unfinished / shard.name).mkdir()

    broken(disturb)
    with pytest.raises(UserError, match=r"Is a directory \(MINIGPT_CACHE sets") as error:
        open_corpus(files(tmp_path, TEXT), CHARACTERS, shard_bytes=SHARD_BYTES)
    assert "\n" not in str(error.value) and not children()


def test_a_fault_of_the_program_is_shown(tmp_path, broken):
    broken(lambda process, shard: object.__setattr__(shard, "name", "\0"))
    with pytest.raises(RuntimeError, match=r"Traceback[^$]*embedded null byte"):
        open_corpus(files(tmp_path, TEXT), CHARACTERS, shard_bytes=SHARD_BYTES)
    assert not children()


def test_an_interrupt_keeps_what_is_there(tmp_path, cache, broken, messages, written):
    def interrupt(process, shard):
        raise KeyboardInterrupt

    data = files(tmp_path, TEXT)
    broken(interrupt)
    with pytest.raises(Interrupted):
        open_corpus(data, CHARACTERS, shard_bytes=SHARD_BYTES)
    assert "interrupted; what is tokenized is kept: the same command continues" in messages()
    assert not children()
    assert list(cache.glob("tokens/*.unfinished/progress/*.json"))


# The only shard takes hours: one piece again and again.
ENDLESS = (
    SCRIPT[: SCRIPT.index("write, lock")]
    + textwrap.dedent("""
    import numpy as np
    from minigpt.corpus import store_files
    from minigpt.corpus.shards import Shard
    store_files.shards = lambda name, documents, count: iter(
        [Shard("train.bin", np.tile([[0, 1000, 1]], (10**6, 1)), True)]
    )
    class Progress:
        def __init__(self, total):
            self.said = False
        def add(self, n_bytes):
            if not self.said:
                self.said = True
                print("running", *(child.pid for child in started), flush=True)
    store_files.Progress = Progress
    started = []
    class Popen(shard_processes.subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
    shard_processes.subprocess.Popen = Popen
""")
    + SCRIPT[SCRIPT.index("token_store.open_corpus") :]
)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_all_processes_end_with_the_first_one(tmp_path, number):
    data = files(tmp_path, ["abc def " * 1000, *TEXT])
    process = start(ENDLESS, data.paths[0])
    assert process.stdout.readline() == "started\n"
    word, *pids = process.stdout.readline().split()
    assert word == "running" and pids
    workers = [os.pidfd_open(int(pid)) for pid in pids]
    end(process, number)
    for worker in workers:
        # A descriptor of a process can be read when it has ended.
        assert select.select([worker], [], [], 60)[0]
        os.close(worker)


def test_no_executable(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(subprocess, "Popen", None)
    corpus = open_corpus(files(tmp_path, TEXT), CHARACTERS, shard_bytes=SHARD_BYTES)
    check_ids(corpus, files(tmp_path, TEXT))


def test_two_at_a_time(tmp_path, cache, written, monkeypatch):
    data = files(tmp_path, TEXT)
    process = start(SCRIPT, data.paths[0])
    assert [process.stdout.readline() for _ in range(2)] == ["started\n", "five\n"]
    # The other process continues as soon as this one waits for it.
    monkeypatch.setattr(atomic.logger, "info", lambda *_: process.stdin.close())
    corpus = open_corpus(data, CHARACTERS, shard_bytes=SHARD_BYTES)
    assert process.stdin.closed
    assert process.wait(timeout=60) == 0
    process.stdout.close()
    process.stderr.close()
    assert not written and list((cache / "tokens").iterdir()) == [corpus.path]
