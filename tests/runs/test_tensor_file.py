"""Arrays in safetensors files."""

import errno
import subprocess
import sys

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import load_file

from minigpt.runs.checkpoints import write_tensors

PEAK = """
import resource, sys
from pathlib import Path
import numpy as np
from minigpt.runs.checkpoints import write_tensors
arrays = {str(number): np.ones(8_000_000, "float32") for number in range(4)}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_tensors(Path(sys.argv[1]), arrays)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="float32").reshape(2, 3).T,
        np.arange(8, dtype="int64")[::2],
        np.array(7, "int32"),
        np.zeros((0, 3), "float16"),
        np.array([True, False]),
    ],
    ids=["transposed", "strided", "scalar", "empty", "bool"],
)
def test_what_is_read_is_what_was_written(array, tmp_path):
    write_tensors(tmp_path / "a", {"x": array}, {"format": "pt"})
    np.testing.assert_array_equal(load_file(tmp_path / "a")["x"], array, strict=True)
    (tmp_path / "usual").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failure_is_an_oserror(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_tensors(tmp_path / "none/a", {"x": np.zeros(3)})


def test_a_full_disk_is_an_oserror(tmp_path, monkeypatch):
    def full(*_):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("minigpt.runs.checkpoints.save_file", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_tensors(tmp_path / "a", {})
    assert caught.value.errno == errno.ENOSPC


def test_no_second_copy_of_the_arrays_is_in_memory(tmp_path):
    command = [sys.executable, "-c", PEAK, str(tmp_path / "a")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (tmp_path / "a").stat().st_size > 128_000_000
    assert int(done.stdout) < 16_000_000
