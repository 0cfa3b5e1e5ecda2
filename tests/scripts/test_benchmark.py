"""scripts/benchmark.py runs its smallest case to the end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/benchmark.py"


@pytest.mark.slow
def test_the_smallest_case(tmp_path):
    output = tmp_path / "results.json"
    options = ["engine-2m-int8", "--quick", "--output", str(output)]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(output.read_text())
    assert result["ours"] > 0 and not result["failed"]
    assert "| `engine-2m-int8` | " in done.stdout


def test_an_unknown_case(tmp_path):
    done = subprocess.run([sys.executable, str(SCRIPT), "nosuch"], capture_output=True, text=True)
    assert done.returncode == 2 and "nosuch" in done.stderr.splitlines()[-1]
