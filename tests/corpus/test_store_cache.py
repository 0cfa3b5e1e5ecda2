"""When a token store is used again, when it is rewritten, and what a killed process leaves."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from minigpt.corpus import sources, token_store
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from tests.corpus.stores import CHARACTERS, TEXTS, files
from tests.settings import data_config

pytestmark = pytest.mark.usefixtures("cache")


def test_a_second_run_reads_only_the_store(tmp_path, monkeypatch):
    first = open_corpus(files(tmp_path, TEXTS), CHARACTERS)

    def refuse(*_, **__):
        raise AssertionError("read again")

    monkeypatch.setattr(token_store, "ingest", refuse)
    monkeypatch.setattr(token_store, "learn_from", refuse)
    second = open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    assert second.from_cache and second.fingerprint == first.fingerprint
    np.testing.assert_array_equal(second.train.ids, first.train.ids)
    np.testing.assert_array_equal(second.token_counts, first.token_counts)
    assert second.tokenizer.fingerprint() == first.tokenizer.fingerprint()
    assert (second.val.documents, second.val.bytes) == (first.val.documents, first.val.bytes)
    # The same text under another name, too.
    assert open_corpus(files(tmp_path, TEXTS, "renamed.txt"), CHARACTERS).from_cache


def test_changed_text_of_equal_size_and_date_is_noticed(tmp_path):
    first = open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    path = tmp_path / "text.txt"
    status = path.stat()
    path.write_text("|".join([TEXTS[0].upper(), *TEXTS[1:]]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    second = open_corpus(
        data_config(source="files", paths=[str(path)], document_separator="|"), CHARACTERS
    )
    assert not second.from_cache and second.fingerprint != first.fingerprint


def test_every_setting_that_determines_the_ids_changes_the_key(tmp_path):
    data = files(tmp_path, TEXTS)
    keys = {
        open_corpus(*settings).fingerprint
        for settings in (
            (data, CHARACTERS),
            (data.model_copy(update={"val_fraction": 0.3}), CHARACTERS),
            (data.model_copy(update={"document_separator": "and"}), CHARACTERS),
            (data, CHARACTERS.model_copy(update={"vocab_size": 20})),
            (data, CHARACTERS.model_copy(update={"lowercase": True})),
            (data, CHARACTERS.model_copy(update={"kind": "word"})),
        )
    }
    assert len(keys) == 6


@pytest.mark.parametrize("name", ["train.bin", "val.bin", "meta.json", "counts.npy", "tokenizer"])
def test_a_damaged_store_is_written_again(tmp_path, name, messages):
    first = open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    ids = np.array(first.train.ids)
    path = first.path / name
    path = next(path.iterdir()) if path.is_dir() else path
    whole = path.read_bytes()
    middle = 2 * len(whole) // 3
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for content in (whole[:-2], b"{", flipped, None):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        second = open_corpus(files(tmp_path, TEXTS), CHARACTERS)
        assert not second.from_cache
        assert any(f"{first.path} was damaged" in line for line in messages())
        np.testing.assert_array_equal(second.train.ids, ids)
        assert open_corpus(files(tmp_path, TEXTS), CHARACTERS).from_cache
        assert [path.name for path in second.path.parent.iterdir()] == [second.fingerprint]


def test_one_of_several_that_start_together_writes_the_store(tmp_path, cache):
    data = files(tmp_path, TEXTS)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: open_corpus(data, CHARACTERS), range(4)))
    assert sorted(corpus.from_cache for corpus in found) == [False, True, True, True]
    for corpus in found:
        np.testing.assert_array_equal(corpus.train.ids, found[0].train.ids)
    assert [path.name for path in (cache / "tokens").iterdir()] == [found[0].fingerprint]


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError, OSError])
def test_no_unfinished_store_is_left(tmp_path, cache, monkeypatch, error):
    def fail(*_, **__):
        raise error("stop")

    monkeypatch.setattr(token_store, "sha256_of", fail)
    with pytest.raises(UserError if error is OSError else error):
        open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    assert not list((cache / "tokens").iterdir())


def test_a_text_that_changes_while_it_is_being_read(tmp_path, cache, monkeypatch):
    fingerprints = iter(["0" * 64, "1" * 64])
    monkeypatch.setattr(sources.TextFiles, "fingerprint", lambda self: next(fingerprints))
    with pytest.raises(UserError, match="changed"):
        open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    assert not list((cache / "tokens").iterdir())


def test_no_text_and_no_cache_folder(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="only white space"):
        open_corpus(files(tmp_path, [" ", "\n"]), CHARACTERS)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=f"{tmp_path / 'file'}: File exists"):
        open_corpus(files(tmp_path, TEXTS), CHARACTERS)


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"MINIGPT_CACHE": "/a/b", "XDG_CACHE_HOME": "/c"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/minigpt"),
        ({"HOME": "/home/me"}, "/home/me/.cache/minigpt"),
    ],
)
def test_cache_folder(monkeypatch, environment, folder):
    for name in ("MINIGPT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert token_store.cache_folder() == Path(folder)
