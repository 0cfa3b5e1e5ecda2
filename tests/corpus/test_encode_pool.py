"""A large text is tokenized in several processes; the ids are those of one."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from minigpt.corpus import encode_pool, token_ids, token_store
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from tests.corpus.stores import TEXTS, files
from tests.settings import tokenizer_config

TEXT = [*TEXTS, " ".join(TEXTS), "é  ü\n\n" * 50, "ab" * 300, *map(str.upper, TEXTS)]


@pytest.fixture(autouse=True)
def small_groups(cache, monkeypatch):
    monkeypatch.setattr(token_store, "POOL_BYTES", 100)
    monkeypatch.setattr(token_ids, "POOL_GROUP_BYTES", 100)
    monkeypatch.setattr(encode_pool, "available_cores", lambda: 2)


@pytest.mark.parametrize("count", [len(TEXT), 9])
def test_processes_give_the_ids_of_one(tmp_path, monkeypatch, count):
    # Of fewer than ten documents, one is cut in two: the training side has no end.
    settings = files(tmp_path, TEXT[-count:]), tokenizer_config(kind="byte_pair", vocab_size=400)
    whole = open_corpus(*settings)
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(token_store, "POOL_BYTES", 10**9)
    one = open_corpus(*settings)
    assert not one.from_cache and one.fingerprint == whole.fingerprint
    np.testing.assert_array_equal(one.token_counts, whole.token_counts)
    for side, other in ((one.train, whole.train), (one.val, whole.val)):
        np.testing.assert_array_equal(side.ids, other.ids)
        assert replace(side, ids=None) == replace(other, ids=None)


def test_a_process_that_is_killed_ends_all(tmp_path, cache, monkeypatch):
    started = []

    class Popen(encode_pool.subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            os.kill(self.pid, signal.SIGKILL)

    monkeypatch.setattr(encode_pool.subprocess, "Popen", Popen)
    with pytest.raises(UserError, match="ended with status -9") as error:
        open_corpus(files(tmp_path, TEXT), tokenizer_config(kind="character", vocab_size=90))
    assert len(error.value.problems) == 1
    assert [process.wait(timeout=60) for process in started] == [-signal.SIGKILL] * 2
    # Nothing half-written is left.
    assert not list((cache / "tokens").iterdir())


def test_what_a_process_prints_is_not_in_the_ids(tmp_path, monkeypatch, capfd):
    settings = files(tmp_path, TEXT), tokenizer_config(kind="character", vocab_size=90)
    program = encode_pool._PROGRAM.replace("main(output)", "os.write(1, b'B' * 9); main(output)")
    monkeypatch.setattr(encode_pool, "_PROGRAM", program)
    open_corpus(*settings)
    assert "B" * 9 in capfd.readouterr().err


@pytest.mark.parametrize(
    ("program", "words"),
    [
        # Not a pickle, from a process that does not end.
        ("import time; print('no ids', flush=True); time.sleep(500)", "ended with status -9"),
        ("raise SystemExit(3)", "ended with status 3$"),
    ],
)
def test_problems_of_a_process_are_one_line(tmp_path, monkeypatch, capfd, program, words):
    monkeypatch.setattr(encode_pool, "_PROGRAM", program)
    with pytest.raises(UserError, match=words) as error:
        open_corpus(files(tmp_path, TEXT), tokenizer_config(kind="character", vocab_size=90))
    assert len(error.value.problems) == 1 and "Traceback" not in capfd.readouterr().err
