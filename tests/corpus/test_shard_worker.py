"""The process that writes shards."""

from pathlib import Path

import numpy as np
import pytest

from minigpt.corpus.documents import Piece, ingest
from minigpt.corpus.shard_processes import _Process
from minigpt.corpus.shard_worker import WorkerSettings
from minigpt.corpus.shards import Shard
from minigpt.tokenizers.character import CharacterTokenizer

TOKENIZER = CharacterTokenizer([*"abc"], b"", lowercase=False)


@pytest.fixture
def process(tmp_path):
    documents = ingest([Piece(b"abc" * 1000, True)])
    (tmp_path / "progress").mkdir()
    TOKENIZER.save(tmp_path / "tokenizer")
    process = _Process(WorkerSettings(str(tmp_path), documents.file.descriptor, 3000))
    yield process
    process.end()


def test_it_writes_shards_without_tensorflow(tmp_path, process):
    end = TOKENIZER.end_id
    for number, begins_part in enumerate([True, False]):
        shard = Shard(f"{number}.bin", np.array([[0, 2, 0], [2, 3, 1]]), begins_part)
        process.write(shard, lambda n_bytes: None)
        ids = np.fromfile(tmp_path / shard.name, np.uint16).tolist()
        assert ids == [end] * begins_part + [*TOKENIZER.encode("abc"), end]
    maps = Path(f"/proc/{process._process.pid}/maps")
    if maps.exists():
        libraries = maps.read_text()
        assert "numpy" in libraries and "tensorflow" not in libraries


def test_it_ends_within_a_shard_when_its_input_ends(tmp_path, process):
    endless = Shard("train.bin", np.tile([[0, 3000, 1]], (10**6, 1)), True)
    reported = []

    def close(n_bytes):
        if not reported:
            process._jobs.close()
        reported.append(n_bytes)

    with pytest.raises(Exception, match="ended with status 0"):
        process.write(endless, close)
    assert 0 < sum(reported) < endless.bytes and not (tmp_path / "train.bin").exists()
