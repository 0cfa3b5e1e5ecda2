"""Checkpoints on disk: complete or absent; damage is detected."""

import json

import numpy as np
import pytest

from minigpt.runs import checkpoints
from minigpt.runs.checkpoints import (
    Best,
    BrokenCheckpointError,
    ClockState,
    TrainingProgress,
    newest_checkpoint,
    read_checkpoint,
    remove_checkpoints,
    write_checkpoint,
)
from minigpt.runs.layout import checkpoint_name

ARRAYS = {
    "weights/0": np.arange(12, dtype="float32").reshape(3, 4),
    "weights/1": np.asfortranarray(np.arange(6, dtype="float32").reshape(2, 3)),
    "seeds/0": np.array([3, 2**32 - 1], "uint32"),
    "optimizer/0": np.array(7, "int64"),
    "none": np.zeros((0, 3), "float16"),
}
PROGRESS = TrainingProgress(
    step=3,
    epoch=1,
    batch=2,
    clock=ClockState(batches=5, seconds=0.1 + 0.2, epoch_step=2, beside_a_step=0.1),
    given_plan=[],
    plan=[[1, 2]],
    best=Best(val_loss=1 / 3, epoch=1, checkpoint="step-00000002-epoch-1"),
    epochs_since_best=0,
    config={"sampling": {"prompts": ["Čeněk"]}},
)


def write(folder, step=3, epoch=None):
    return write_checkpoint(folder, checkpoint_name(step, epoch), ARRAYS, PROGRESS)


def test_what_is_read_is_what_was_written(tmp_path):
    found = read_checkpoint(write(tmp_path))
    assert found.progress == PROGRESS
    assert set(found.arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


def cut(file):
    file.write_bytes(file.read_bytes()[:-5])


def flip(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


@pytest.mark.parametrize("name", [checkpoints.STATE, checkpoints.MANIFEST])
@pytest.mark.parametrize(
    "damage", [cut, flip, lambda file: file.unlink(), lambda file: file.write_bytes(b"")]
)
def test_a_damaged_checkpoint_is_ignored_with_a_warning(name, damage, tmp_path, caplog):
    intact, damaged = write(tmp_path, 3), write(tmp_path, 5)
    damage(damaged / name)
    found = newest_checkpoint(tmp_path)
    assert found is not None and found.path == intact
    (line,) = caplog.messages
    assert line.startswith(f"{damaged}: was damaged and is ignored: {name}")


def test_every_flipped_bit_is_detected(tmp_path):
    path = write(tmp_path)
    file = path / checkpoints.STATE
    right = file.read_bytes()
    for place in range(0, len(right), 37):
        data = bytearray(right)
        data[place] ^= 1 << place % 8
        file.write_bytes(data)
        with pytest.raises(BrokenCheckpointError):
            read_checkpoint(path)


@pytest.mark.parametrize("content", ["[]", "3", "null", '{"sha256": 1}', "[" * 100_000, "\0"])
def test_a_manifest_with_other_content(content, tmp_path):
    path = write(tmp_path)
    (path / checkpoints.MANIFEST).write_text(content)
    with pytest.raises(BrokenCheckpointError, match="manifest"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "change",
    [
        {"step": -1},
        {"epoch": "1"},
        {"clock": {"batches": 1.5}},
        {"best": {"val_loss": 1.0, "epoch": 1, "checkpoint": "../../step-00000001-epoch-1"}},
        {"config": 3},
        {"more": 1},
    ],
)
def test_a_manifest_with_a_matching_checksum_and_wrong_values(change, tmp_path):
    path = write(tmp_path)
    content = json.loads((path / checkpoints.MANIFEST).read_text())
    del content["sha256"]
    content["progress"] |= change
    content["sha256"] = checkpoints._sha256_of_content(content)
    (path / checkpoints.MANIFEST).write_text(json.dumps(content))
    with pytest.raises(BrokenCheckpointError, match="manifest"):
        read_checkpoint(path)


def test_a_checkpoint_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    before = write(tmp_path)
    content = (before / checkpoints.MANIFEST).read_text()

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("minigpt.storage.atomic.fsync_all", full)
    for step in (3, 4):
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path, step)
    assert [path.name for path in tmp_path.iterdir()] == [before.name]
    assert (before / checkpoints.MANIFEST).read_text() == content


def test_only_the_named_checkpoints_stay(tmp_path):
    for step in range(5):
        write(tmp_path, step)
    remove_checkpoints(tmp_path, {"step-00000001", "step-00000004"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000004"]
