"""`minigpt runs`."""

import json
import os
import shutil
from pathlib import Path

import pytest

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
    assert line.startswith("minigpt: FOLDER missing: ")
