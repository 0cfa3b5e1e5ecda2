"""`minigpt memorized`."""

import json
import shutil

from minigpt import Run
from tests.cli.running import called, refused

FEW = "--tokens", "300"


def test_one_line_of_json(folder):
    done = called("memorized", "runs/book-1", "--json", *FEW, cwd=folder)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    record = json.loads(line)
    assert record["state"] == "best" and record["step"] in (30, 60)
    assert 0 <= record["share"] <= 1 and 0 <= record["held_out_share"] <= 1
    assert {"samples", "tokens", "words", "epoch"} < set(record)
    done = called("memorized", "runs/book-1", "--json", "--state", "last", *FEW, cwd=folder)
    record = json.loads(done.stdout)
    assert (record["state"], record["epoch"], record["step"]) == ("last", 2, 60)


def test_what_cannot_be_measured_is_one_line(folder, tmp_path):
    (line,) = refused("memorized", "nowhere", cwd=tmp_path)
    assert "nowhere" in line
    (line,) = refused("memorized", "runs/book-1", "--state", "newest", cwd=folder)
    assert "--state newest" in line
    run = shutil.copytree(folder / "runs/book-1", tmp_path / "run")
    (original,) = Run(run).config.data.paths
    config = run / "config.toml"
    config.write_text(config.read_text().replace(original, str(tmp_path / "book.txt")))
    for text in (None, "Another text.\n" * 50):
        if text:
            (tmp_path / "book.txt").write_text(text)
        (line,) = refused("memorized", "run", cwd=tmp_path)
        assert "book.txt" in line or "RUN run" in line
