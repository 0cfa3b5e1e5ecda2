"""The targets with inputs that a coverage-guided fuzzer generates."""

import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bad_input.targets import TARGETS

RUNS, SECONDS = 3000, 60


@pytest.mark.slow
@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="atheris has wheels for Linux x86-64 only",
)
@pytest.mark.parametrize("name", TARGETS)
def test_fuzzer(name: str, tmp_path: Path, tally: Callable[..., None]):
    for number, data in enumerate((b"[training]\nepochs = 3\n", "a\tČ\nb\t\U0001f600".encode())):
        (tmp_path / f"{number}").write_bytes(data)
    options = [f"-runs={RUNS}", f"-max_total_time={SECONDS}", "-max_len=200", "-timeout=20"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bad_input.fuzz", name, str(tmp_path), "-seed=1", *options],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, done.stderr[-4000:]
    runs = int(re.findall(r"Done (\d+) runs", done.stderr)[-1])
    tally(inputs=runs)
    assert runs > 100
