"""Whether two runs are the same, to the bit; of the metrics all but the timings."""

import json
from pathlib import Path

from minigpt.runs.checkpoints import checkpoint_paths, read_checkpoint
from minigpt.runs.run import Run

TIMINGS = {"seconds", "tokens_per_second"}


def lines(file: Path) -> list[dict]:
    """The records in a file of JSON lines, without timings."""
    found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in line.items() if k not in TIMINGS} for line in found]


def assert_same(run: Run, right: Run) -> None:
    """Every weight, seed, metric and optimizer slot; every line and setting."""
    names = [path.name for path in checkpoint_paths(run.checkpoints_folder)]
    assert names == [path.name for path in checkpoint_paths(right.checkpoints_folder)]
    for name in names:
        ours = read_checkpoint(run.checkpoints_folder / name)
        theirs = read_checkpoint(right.checkpoints_folder / name)
        assert list(ours.arrays) == list(theirs.arrays)
        for array in theirs.arrays:
            assert ours.arrays[array].tobytes() == theirs.arrays[array].tobytes(), (name, array)
        assert ours.progress.best == theirs.progress.best
    assert lines(run.metrics_file) == lines(right.metrics_file)
    assert run.samples_file.read_bytes() == right.samples_file.read_bytes()
    assert run.config_file.read_bytes() == right.config_file.read_bytes()
