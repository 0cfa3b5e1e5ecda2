"""Comparison of two runs, bit for bit except for timings."""

from pathlib import Path

import gguf

from minigpt.runs.checkpoints import read_checkpoint
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.run import Run
from tests.run_files import records

TIMINGS = {"seconds", "tokens_per_second", "memory_bytes"}


def lines(file: Path) -> list[dict]:
    """Returns the records of a file of JSON lines, without timings."""
    return [{k: v for k, v in line.items() if k not in TIMINGS} for line in records(file)]


def contents(file: Path) -> tuple[dict, dict]:
    """Returns the keys and the tensors of a portable file, without the name of the run.

    The checksum depends on the name.
    """
    reader = gguf.GGUFReader(file)
    keys = {name: field.contents() for name, field in reader.fields.items()}
    del keys["general.name"], keys["minigpt.crc32"]
    return keys, {tensor.name: tensor.data.tobytes() for tensor in reader.tensors}


def assert_same(run: Run, expected: Run) -> None:
    """Compares every weight, seed, metric and optimizer slot, every line, setting, fact and epoch file."""
    names = [path.name for path in checkpoint_paths(run.checkpoints_folder)]
    assert names == [path.name for path in checkpoint_paths(expected.checkpoints_folder)]
    for name in names:
        actual = read_checkpoint(run.checkpoints_folder / name)
        reference = read_checkpoint(expected.checkpoints_folder / name)
        assert list(actual.arrays) == list(reference.arrays)
        for array in reference.arrays:
            assert actual.arrays[array].tobytes() == reference.arrays[array].tobytes(), (
                name,
                array,
            )
        assert actual.progress.best == reference.progress.best
    assert lines(run.metrics_file) == lines(expected.metrics_file)
    assert lines(run.steps_file) == lines(expected.steps_file) != []
    assert run.samples_file.read_bytes() == expected.samples_file.read_bytes()
    assert run.config_file.read_bytes() == expected.config_file.read_bytes()
    assert run.facts == expected.facts != {}
    snapshots = run.snapshots()
    assert list(snapshots) == list(expected.snapshots())
    for step, file in expected.snapshots().items():
        assert contents(snapshots[step]) == contents(file), step
