"""`minigpt runs`."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.running import called, refused

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "runs"
NAME = "b\x1b[2J\u202e\nx"


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder in which `minigpt runs` lists two runs."""
    for name in ("a", NAME):
        shutil.copytree(FIXTURES / "character", tmp_path / "runs" / name)
    return tmp_path


def test_table(folder):
    metrics = folder / "runs" / "a" / "metrics.jsonl"
    lossy = {"epoch": 1, "val_loss": 1.5, "val_bits_per_byte": None, "seconds": 3725}
    metrics.write_text(json.dumps(lossy) + "\n")
    heading, first, second = called("runs", cwd=folder).stdout.splitlines()
    assert heading.split() == ["name", "text", "parameters", "bits/byte", "time", "state"]
    columns = [line.split("  ") for line in (first, second)]
    cells = [[cell.strip() for cell in line if cell] for line in columns]
    assert cells == [
        ["a", "short.txt", "1,184", "loss 1.5", "1 h 2 min", "finished"],
        [r"b\x1b[2J\u202e\nx", "short.txt", "1,184", "5.134", "5 s", "finished"],
    ]
    # Numbers are aligned to the right.
    assert heading.index("parameters") + len("parameters") == first.index("1,184") + len("1,184")
    assert heading.index("state") == first.index("finished") == second.index("finished")


def test_json(folder):
    (line,) = called("runs", "--json", cwd=folder).stdout.splitlines()
    first, second = json.loads(line)
    assert set(first) == {
        "path", "name", "text", "parameters", "epochs", "val_loss", "bits_per_byte", "seconds", "state",
    }  # fmt: skip
    assert first["path"] == "runs/a" and second["name"] == NAME
    assert "\x1b" not in line
    (folder / "none").mkdir()
    assert called("runs", "none", "--json", cwd=folder).stdout == "[]\n"


def test_a_name_that_is_not_utf_8(folder):
    os.rename(folder / "runs" / "a", os.fsencode(folder / "runs") + b"/\xff")
    out = called("runs", "--json", cwd=folder).stdout
    assert [os.fsencode(run["name"]) for run in json.loads(out)] == [NAME.encode(), b"\xff"]
    assert r"\udcff" in called("runs", cwd=folder).stdout


def test_no_runs(folder):
    (folder / "none").mkdir()
    assert called("runs", "none", cwd=folder).stdout == "none: contains no runs\n"
    (line,) = refused("runs", "missing", cwd=folder)
    assert line.startswith("minigpt: FOLDER missing: does not exist; ")


def on_terminal(columns: int, cwd: Path) -> list[str]:
    """The lines that a terminal of this width receives."""
    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "minigpt", "runs"],
        cwd=cwd,
        stdout=child,
        env=os.environ | {"COLUMNS": str(columns)},
    ) as process:
        os.close(child)
        received = b""
        while select.select([parent], [], [], 60)[0]:
            try:
                received += os.read(parent, 4096)
            except OSError:  # The process has ended.
                break
        assert process.wait() == 0
    os.close(parent)
    return received.decode().splitlines()


def test_a_row_is_one_line_of_a_terminal(folder):
    long = "東京-" * 15 + "z"
    (folder / "runs" / "a").rename(folder / "runs" / long)
    narrow = on_terminal(80, folder)
    assert len(narrow) == 3
    assert max(map(cell_len, narrow)) <= 80
    assert narrow[2].startswith("東京-東京") and "…" in narrow[2]
    assert narrow[2].endswith("finished")
    wide = on_terminal(200, folder)
    assert long in wide[2]
    # Other programs get whole names.
    assert long in called("runs", cwd=folder).stdout
