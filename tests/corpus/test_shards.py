"""A large text is tokenized into shards; the ids are those of one file."""

import json
from dataclasses import replace

import numpy as np
import pytest

from minigpt.corpus import shard_processes, shards, store_files, token_store
from minigpt.corpus.documents import Documents, Piece, ingest
from minigpt.corpus.sharded_ids import ShardedIds
from minigpt.corpus.shards import MAX_SHARDS, shard_count
from minigpt.corpus.token_store import open_corpus, reopen_corpus
from tests.corpus.stores import CHARACTERS, TEXTS, files, pairs
from tests.settings import tokenizer_config

TEXT = [*TEXTS, " ".join(TEXTS), "é  ü\n\n" * 50, "ab" * 300, *map(str.upper, TEXTS)]
SHARD_BYTES = 100


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Returns the corpus of some settings, in a cache for each size of the shards."""

    def stored(*settings, shard_bytes=SHARD_BYTES):
        monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / f"cache-{shard_bytes}"))
        return open_corpus(*settings, shard_bytes=shard_bytes)

    return stored


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(shard_processes, "_can_start_python", lambda: False)


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
        assert one.ids.dtype == other.ids.dtype and isinstance(other.ids, np.memmap)
        assert replace(one, ids=None) == replace(other, ids=None)
        assert one.tokens == other.tokens


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_processes_give_the_ids_of_one(tmp_path, stored, monkeypatch, processes, messages):
    monkeypatch.setattr(store_files, "available_cores", lambda: processes)
    settings = files(tmp_path, TEXT), tokenizer_config(kind="byte_pair", vocab_size=400)
    whole = stored(*settings, shard_bytes=10**6)
    messages()
    sharded = stored(*settings)
    assert any(f"in {processes} processes" in line for line in messages())
    assert isinstance(sharded.train.ids, ShardedIds) and len(sharded.train.ids.shards) > 5
    check_equal(sharded, whole)
    again = stored(*settings)
    assert again.from_cache and isinstance(again.train.ids, ShardedIds)
    check_equal(again, whole)
    # Only the store is left, with no more than it needs.
    assert list(sharded.path.parent.iterdir()) == [sharded.path]
    names = {path.name for path in sharded.path.iterdir()}
    others = {name for name in names if not name.startswith("train-")}
    assert others == {"val.bin", "counts.npy", "tokenizer", "meta.json"}
    assert "train-00000.bin" in names


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("kind", ["character", "byte_pair", "word"])
@pytest.mark.parametrize("shard_bytes", [7, 100, 1000])
def test_pieces_of_long_documents(tmp_path, stored, monkeypatch, kind, shard_bytes):
    small_pieces(monkeypatch)
    monkeypatch.setattr(shards, "MAX_SHARDS", 10**6)
    monkeypatch.setattr(shards, "_PIECES_AT_ONCE", 3)
    settings = files(tmp_path, TEXT), tokenizer_config(kind=kind, vocab_size=400)
    check_equal(stored(*settings, shard_bytes=shard_bytes), stored(*settings, shard_bytes=10**6))


@pytest.mark.usefixtures("in_this_process")
def test_a_text_cut_in_two(tmp_path, stored, monkeypatch):
    # Fewer than ten documents: the last document of the training side has no end.
    small_pieces(monkeypatch)
    settings = files(tmp_path, [" ".join(TEXTS) * 3]), CHARACTERS
    check_equal(stored(*settings), stored(*settings, shard_bytes=10**6))


@pytest.mark.usefixtures("in_this_process")
def test_pairs(tmp_path, stored):
    settings = pairs(tmp_path), CHARACTERS
    sharded = stored(*settings, shard_bytes=30)
    assert isinstance(sharded.train.ids, ShardedIds)
    check_equal(sharded, stored(*settings, shard_bytes=10**6))


@pytest.mark.usefixtures("in_this_process")
def test_a_run_finds_its_shards(tmp_path, stored):
    data = files(tmp_path, TEXT)
    sharded = stored(data, CHARACTERS)
    again = reopen_corpus(data, CHARACTERS, None, sharded.fingerprint)
    assert again.from_cache and isinstance(again.train.ids, ShardedIds)


def test_a_small_text_is_one_file_and_starts_no_process(tmp_path, stored, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("started")

    monkeypatch.setattr(token_store, "write_sharded_store", refuse)
    corpus = stored(files(tmp_path, TEXT), CHARACTERS, shard_bytes=shards.SHARD_BYTES)
    names = {path.name for path in corpus.path.iterdir()}
    assert names == {"train.bin", "val.bin", "counts.npy", "tokenizer", "meta.json"}
    assert "shards" not in json.loads((corpus.path / "meta.json").read_text())
    assert isinstance(corpus.train.ids, np.memmap) and isinstance(corpus.val.ids, np.memmap)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("name", ["train-00003.bin", "meta.json"])
def test_a_damaged_store_is_written_again(tmp_path, stored, name):
    settings = files(tmp_path, TEXT), CHARACTERS
    path = stored(*settings).path / name
    content = path.read_bytes()
    for damaged in (content[:-2], content[:-1] + bytes([content[-1] ^ 1]), None):
        if damaged is None:
            path.unlink()
        else:
            path.write_bytes(damaged)
        assert not stored(*settings).from_cache
        assert stored(*settings).from_cache and path.read_bytes() == content


@pytest.mark.parametrize("n_bytes", [1, 99, 100, 101, 1000, 10**7])
def test_the_number_of_shards(n_bytes):
    count = shard_count(n_bytes, 100)
    assert 1 <= count <= MAX_SHARDS
    assert count == MAX_SHARDS or count * 100 >= n_bytes > (count - 1) * 100


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20, 1000])
def test_shards_divide_the_pieces_evenly(monkeypatch, count):
    documents = ingest(Piece(text.encode(), True) for text in TEXT)
    monkeypatch.setattr(Documents.piece_spans, "__defaults__", (20,))
    divided = list(shards.shards("train", documents, count))
    pieces = [tuple(piece) for shard in divided for piece in shard.pieces.tolist()]
    assert pieces == list(documents.piece_spans())
    assert len(divided) <= count and len({shard.name for shard in divided}) == len(divided)
    assert [shard.begins_part for shard in divided] == [True] + [False] * (len(divided) - 1)
    assert sum(shard.bytes for shard in divided) == documents.bytes
    share = documents.bytes / count
    assert all(0 < shard.bytes < share + 20 for shard in divided)
    assert all(shard.bytes > share - 20 for shard in divided[:-1])


def test_a_long_piece_is_not_followed_by_short_shards():
    documents = ingest(Piece(b"x" * size, True) for size in [100, *[1] * 20])
    assert [shard.bytes for shard in shards.shards("train", documents, 6)] == [100, 20]
