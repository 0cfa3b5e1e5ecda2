"""`minigpt memorized`."""

import json
import shutil
from pathlib import Path

from minigpt import Run
from tests.cli.running import called, refused

FEW = "--tokens", "300"


def test_one_line_of_json(trained):
    folder, _ = trained
    done = called("memorized", "runs/book-1", "--json", *FEW, cwd=folder)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    record = json.loads(line)
    assert record["state"] == "best" and record["step"] in (10, 20)
    assert 0 <= record["share"] <= 1 and 0 <= record["held_out_share"] <= 1
    assert {"longest", "samples", "tokens", "words", "epoch"} < set(record)
    done = called("memorized", "runs/book-1", "--json", "--state", "last", *FEW, cwd=folder)
    record = json.loads(done.stdout)
    assert (record["state"], record["epoch"], record["step"]) == ("last", 2, 20)


def test_in_words(trained):
    folder, _ = trained
    done = called("memorized", "runs/book-1", *FEW, cwd=folder)
    assert done.returncode == 0 and done.stderr == ""
    first, second, *_, last = done.stdout.splitlines()
    assert first.startswith("0.0% of the 300 tokens that the model wrote are copied")
    assert second.endswith("of the same amount of held-out text is in such passages.")
    assert last.startswith("The model copies about as much as held-out text does")


def test_what_cannot_be_measured_is_one_line(trained, tmp_path):
    folder, _ = trained
    (line,) = refused("memorized", "nowhere", cwd=tmp_path)
    assert "nowhere" in line
    (line,) = refused("memorized", "runs/book-1", "--state", "newest", cwd=folder)
    assert line == "minigpt: --state newest: should be best or last"
    config = shutil.copytree(folder / "runs/book-1", tmp_path / "run") / "config.toml"
    text = config.read_text()
    (original,) = Run(config.parent).config.data.paths
    assert Path(original).name == "book.txt"
    config.write_text(text.replace(original, str(tmp_path / "book.txt")))
    (line,) = refused("memorized", "run", cwd=tmp_path)
    assert "book.txt: no such file" in line
    (tmp_path / "book.txt").write_text("Another text.\n" * 50)
    (line,) = refused("memorized", "run", cwd=tmp_path)
    assert line.startswith("minigpt: RUN run: its text (data.source = 'files') has changed")
