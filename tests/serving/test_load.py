"""200 clients for five minutes: no error but 429, no wrong text, memory stays flat."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def measured(model: Path, seconds: int) -> dict:
    command = [sys.executable, "-m", "tests.serving.load", str(model), str(seconds)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    return json.loads(done.stdout)


def check(found: dict) -> None:
    assert found["statuses"].keys() <= {"200", "429"}, found
    assert found["statuses"]["200"] > 200, found
    assert found["wrong_texts"] == 0, found
    assert found["memory_growth_mb"] < 50, found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    "seconds", [10, pytest.param(300, marks=pytest.mark.slow)], ids="{} seconds".format
)
def test_200_clients(seconds, tiny_run):
    check(measured(tiny_run.path / "model.gguf", seconds))
