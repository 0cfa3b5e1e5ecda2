"""Which files of epochs a run keeps."""

from itertools import pairwise

import pytest

from minigpt.runs import layout
from minigpt.runs.layout import (
    MAX_EPOCH_FILES,
    epoch_file_name,
    epoch_paths,
    kept_epochs,
    remove_epoch_files,
)


def test_all_of_fifty_and_every_second_of_more():
    assert kept_epochs(0) == []
    assert kept_epochs(1) == [1]
    assert kept_epochs(50) == list(range(1, 51))
    assert kept_epochs(51) == list(range(1, 52, 2))
    assert kept_epochs(52) == [*range(1, 52, 2), 52]
    assert kept_epochs(1000) == [*range(1, 1000, 32), 1000]


def test_at_most_fifty_at_equal_distances():
    for ended in range(1, 3000):
        kept = kept_epochs(ended)
        assert kept[0] == 1 and kept[-1] == ended
        assert len(kept) <= MAX_EPOCH_FILES
        assert len(kept) >= min(ended, MAX_EPOCH_FILES // 2)
        distances = {later - earlier for earlier, later in pairwise(kept[:-1])}
        assert len(distances) <= 1
        # What was removed earlier is never needed later.
        assert set(kept) <= {*kept_epochs(ended - 1), ended}


@pytest.mark.parametrize("resumed_from", [{}, {7: 5}, {13: 12, 29: 2}])
def test_resumed_training_ends_with_the_same_files(resumed_from, tmp_path, monkeypatch):
    """Training ends abruptly after some epochs, and is resumed from a checkpoint of an earlier epoch."""
    monkeypatch.setattr(layout, "MAX_EPOCH_FILES", 4)
    again, ended = dict(resumed_from), 0
    while ended < 37:
        remove_epoch_files(tmp_path, ended)
        ended += 1
        (tmp_path / epoch_file_name(ended)).touch()
        ended = again.pop(ended, ended)
    remove_epoch_files(tmp_path, ended)
    assert [path.name for path in epoch_paths(tmp_path)] == [
        "epoch-0001.gguf",
        "epoch-0017.gguf",
        "epoch-0033.gguf",
        "epoch-0037.gguf",
    ]
