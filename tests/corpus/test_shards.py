"""A large text is tokenized in several processes; the ids are those of one."""

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

from minigpt.corpus import shards, token_store
from minigpt.corpus.documents import Documents, Piece, ingest
from minigpt.corpus.token_store import open_corpus, reopen_corpus
from minigpt.errors import UserError
from minigpt.interrupts import Interrupted
from minigpt.storage import atomic
from tests.corpus.stores import CHARACTERS, TEXTS, files, pairs
from tests.settings import tokenizer_config

TEXT = [*TEXTS, " ".join(TEXTS), "é  ü\n\n" * 50, "ab" * 300, *map(str.upper, TEXTS)]
SHARD_BYTES = 200
STORE = {"train.bin", "val.bin", "counts.npy", "tokenizer", "meta.json"}


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Returns the corpus of some settings, in a cache for each size of the shards."""

    def stored(*settings, shard_bytes=SHARD_BYTES):
        monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / f"cache-{shard_bytes}"))
        return open_corpus(*settings, shard_bytes=shard_bytes)

    return stored


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(shards, "_can_start_python", lambda: False)


def small_pieces(monkeypatch):
    """Cuts documents into pieces of 20 bytes, in one file and in shards."""
    monkeypatch.setattr(Documents.piece_spans, "__defaults__", (20,))
    monkeypatch.setattr(Documents.pieces, "__defaults__", (20,))


def check_equal(sharded, whole):
    assert sharded.fingerprint == whole.fingerprint
    assert sharded.tokenizer.fingerprint() == whole.tokenizer.fingerprint()
    assert sharded.duplicates == whole.duplicates
    np.testing.assert_array_equal(sharded.token_counts, whole.token_counts)
    for one, other in ((sharded.train, whole.train), (sharded.val, whole.val)):
        np.testing.assert_array_equal(one.ids, other.ids)
        assert one.ids.dtype == other.ids.dtype and isinstance(one.ids, np.memmap)
        assert replace(one, ids=None) == replace(other, ids=None)


@pytest.mark.parametrize("processes", [1, 3])
def test_processes_give_the_ids_of_one(tmp_path, stored, monkeypatch, processes, messages):
    monkeypatch.setattr(shards, "available_cores", lambda: processes)
    settings = files(tmp_path, TEXT), tokenizer_config(kind="byte_pair", vocab_size=400)
    whole = stored(*settings, shard_bytes=10**6)
    assert not any("processes" in line for line in messages())
    sharded = stored(*settings, shard_bytes=500)
    assert any(f"in {processes} processes" in line for line in messages())
    check_equal(sharded, whole)
    again = stored(*settings, shard_bytes=500)
    assert again.from_cache
    check_equal(again, whole)
    # Only the store is left, with no more than it needs.
    assert list(sharded.path.parent.iterdir()) == [sharded.path]
    assert {path.name for path in sharded.path.iterdir()} == STORE


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("kind", ["character", "byte_pair", "word"])
@pytest.mark.parametrize("shard_bytes", [7, 100, 1000])
def test_pieces_of_long_documents(tmp_path, stored, monkeypatch, kind, shard_bytes):
    small_pieces(monkeypatch)
    settings = files(tmp_path, TEXT), tokenizer_config(kind=kind, vocab_size=400)
    check_equal(stored(*settings, shard_bytes=shard_bytes), stored(*settings, shard_bytes=10**6))


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("val_fraction", [0.1, 0.9])
def test_a_text_cut_in_two(tmp_path, stored, monkeypatch, val_fraction):
    # Fewer than ten documents: the last document of the training side has no end.
    small_pieces(monkeypatch)
    data = files(tmp_path, [" ".join(TEXTS) * 3]).model_copy(update={"val_fraction": val_fraction})
    sharded = stored(data, CHARACTERS)
    check_equal(sharded, stored(data, CHARACTERS, shard_bytes=10**6))
    assert {path.name for path in sharded.path.iterdir()} == STORE


@pytest.mark.usefixtures("in_this_process")
def test_pairs(tmp_path, stored):
    settings = pairs(tmp_path), CHARACTERS
    check_equal(stored(*settings, shard_bytes=30), stored(*settings, shard_bytes=10**6))


@pytest.mark.usefixtures("in_this_process")
def test_a_run_finds_its_text(tmp_path, stored):
    data = files(tmp_path, TEXT)
    sharded = stored(data, CHARACTERS)
    assert reopen_corpus(data, CHARACTERS, None, sharded.fingerprint).from_cache


@pytest.mark.parametrize("shard_bytes", [1, 20, 100, 333, 10**6])
def test_shards_divide_the_pieces(monkeypatch, shard_bytes):
    documents = ingest(Piece(text.encode(), True) for text in TEXT)
    monkeypatch.setattr(Documents.piece_spans, "__defaults__", (20,))
    divided = list(shards.shards(documents, shard_bytes))
    pieces = [tuple(piece) for shard in divided for piece in shard.pieces.tolist()]
    assert pieces == list(documents.piece_spans())
    assert [shard.number for shard in divided] == list(range(len(divided)))
    assert all(shard.bytes < shard_bytes + 20 for shard in divided)
    assert all(shard.bytes >= shard_bytes for shard in divided[:-1])


@pytest.fixture
def write(monkeypatch):
    """Sets what is done before each shard, in place of a process; returns the names that are written."""
    names = []
    run = shards._run_process

    def set_before(before):
        def write(path, text, running):
            before(path)
            run(path, text, running)
            names.append(path.name)

        monkeypatch.setattr(shards, "_run_process", write)
        monkeypatch.setattr(shards, "available_cores", lambda: 1)
        return names

    return set_before


def at(count, action):
    """Returns a function that acts at its call number `count`."""
    calls = iter(range(1000))
    return lambda path: action(path) if next(calls) == count else None


def interrupt(path):
    raise KeyboardInterrupt


def test_an_interrupt_keeps_what_is_there(tmp_path, stored, write, messages):
    data = files(tmp_path, TEXT)
    written = write(at(3, interrupt))
    with pytest.raises(Interrupted):
        stored(data, CHARACTERS)
    assert "interrupted; what is tokenized is kept: the same command continues" in messages()
    assert len(written) == 3
    corpus = stored(data, CHARACTERS)
    assert "3 shards are there from an earlier start" in messages()
    assert len(set(written)) == len(written) > 3
    check_equal(corpus, stored(data, CHARACTERS, shard_bytes=10**6))


def test_shards_of_another_tokenizer_are_not_used(tmp_path, stored, write):
    data = files(tmp_path, TEXT)
    write(at(3, interrupt))
    with pytest.raises(Interrupted):
        stored(data, CHARACTERS)
    folder = next((tmp_path / f"cache-{SHARD_BYTES}" / "tokens").iterdir())
    other = CHARACTERS.model_copy(update={"vocab_size": 20})
    stored(data, other).tokenizer.save(folder / "tokenizer")
    corpus = stored(data, CHARACTERS)
    # The tokenizer that the unfinished store has.
    assert corpus.tokenizer.fingerprint() == stored(data, other).tokenizer.fingerprint()
    np.testing.assert_array_equal(corpus.train.ids, stored(data, other).train.ids)


def test_killed_before_the_finished_store_is_published(tmp_path, stored, write, monkeypatch):
    data, written = files(tmp_path, TEXT), write(lambda path: None)

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(token_store, "publish_folder", stop)
        with pytest.raises(KeyboardInterrupt):
            stored(data, CHARACTERS)
    assert len(written) > 5
    written.clear()
    corpus = stored(data, CHARACTERS)
    assert not written and list(corpus.path.parent.iterdir()) == [corpus.path]


def test_a_process_that_fails(tmp_path, stored, write):
    write(at(2, lambda path: path.with_suffix(".npy").write_bytes(b"x")))
    with pytest.raises(
        UserError, match=r"^a process that .* failed: .*; the same command"
    ) as error:
        stored(files(tmp_path, TEXT), CHARACTERS)
    assert "\n" not in str(error.value)


def test_a_process_that_is_killed(tmp_path, stored, monkeypatch):
    monkeypatch.setattr(
        shards, "_PROGRAM", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    )
    with pytest.raises(
        UserError, match=r"^a process that .* killed by signal 9 .*; the same command"
    ):
        stored(files(tmp_path, TEXT), CHARACTERS)


def test_an_interrupt_ends_the_processes(tmp_path, stored, monkeypatch):
    """The first process would run for minutes."""
    monkeypatch.setattr(shards, "_PROGRAM", "import time; time.sleep(600)")
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            if len(started) == 2:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(shards, "available_cores", lambda: 2)
    monkeypatch.setattr(shards.subprocess, "Popen", Popen)
    # In the background of a shell it is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            stored(files(tmp_path, TEXT), CHARACTERS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [process.wait(timeout=60) for process in started] == [-signal.SIGKILL] * 2


def test_no_executable(tmp_path, stored, monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    settings = files(tmp_path, TEXT), CHARACTERS
    check_equal(stored(*settings), stored(*settings, shard_bytes=10**6))


# A user's script without `if __name__ == "__main__"`. Waits after five shards for what the test does.
SCRIPT = textwrap.dedent("""
    import sys
    from minigpt.corpus import shards, token_store
    from tests.settings import data_config, tokenizer_config
    print("started", flush=True)
    shards.available_cores = lambda: 1
    run, written = shards._run_process, []
    def run_some(path, text, running):
        if len(written) == 5:
            print("five", flush=True)
            sys.stdin.read()
        run(path, text, running)
        written.append(path)
    shards._run_process = run_some
    token_store.open_corpus(
        data_config(source="files", paths=[sys.argv[1]], document_separator="|"),
        tokenizer_config(kind="character", vocab_size=100),
        shard_bytes=200,
    )
""")


@pytest.fixture
def other_process(tmp_path, monkeypatch):
    """A process that has tokenized five shards."""
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / f"cache-{SHARD_BYTES}"))
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, files(tmp_path, TEXT).paths[0]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert [process.stdout.readline() for _ in range(2)] == ["started\n", "five\n"]
    with process:
        yield process


def test_killed_in_the_middle_and_started_again(tmp_path, stored, write, other_process, messages):
    other_process.kill()
    other_process.wait()
    (unfinished,) = (tmp_path / f"cache-{SHARD_BYTES}" / "tokens").iterdir()
    before = {path.name for path in unfinished.glob("shards-train/*.bin")}
    assert len(before) == 5
    written = write(lambda path: None)
    corpus = stored(files(tmp_path, TEXT), CHARACTERS)
    assert written and not before & set(written)
    assert list(corpus.path.parent.iterdir()) == [corpus.path]
    check_equal(corpus, stored(files(tmp_path, TEXT), CHARACTERS, shard_bytes=10**6))


def test_two_at_a_time(tmp_path, stored, write, other_process, monkeypatch):
    written = write(lambda path: None)
    # The other process continues as soon as this one waits for it.
    monkeypatch.setattr(atomic.logger, "info", lambda *_: other_process.stdin.close())
    corpus = stored(files(tmp_path, TEXT), CHARACTERS)
    assert other_process.stdin.closed and other_process.wait(timeout=60) == 0
    assert not written and list(corpus.path.parent.iterdir()) == [corpus.path]


def test_the_processes_import_no_tensorflow(tmp_path):
    code = "import sys; import minigpt.corpus.shards; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_damaged_stores_of_large_texts_are_written_again(tmp_path, stored, in_this_process):
    settings = files(tmp_path, TEXT), CHARACTERS
    path = stored(*settings).path / "train.bin"
    content = path.read_bytes()
    path.write_bytes(content[:-2])
    assert not stored(*settings).from_cache
    assert stored(*settings).from_cache and path.read_bytes() == content
    assert token_store.read_store(path.parent)
