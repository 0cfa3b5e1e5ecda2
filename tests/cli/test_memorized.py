"""`minigpt memorized`."""

import json
import shutil

import pytest

from minigpt.analysis import memorization
from tests.cli.running import called, refused


@pytest.fixture(autouse=True)
def few_tokens(monkeypatch) -> None:
    monkeypatch.setattr(memorization, "TOKENS", 300)


def test_one_line_of_json(trained):
    folder, _ = trained
    done = called("memorized", "runs/book-1", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    record = json.loads(line)
    assert record["state"] == "best" and record["step"] in (10, 20)
    assert 0 <= record["share"] <= 1 and 0 <= record["held_out_share"] <= 1
    assert {"longest", "samples", "tokens", "words", "epoch"} < set(record)
    done = called("memorized", "runs/book-1", "--json", "--state", "last", cwd=folder)
    record = json.loads(done.stdout)
    assert (record["state"], record["epoch"], record["step"]) == ("last", 2, 20)


def test_in_words(trained):
    folder, _ = trained
    done = called("memorized", "runs/book-1", cwd=folder)
    assert done.returncode == 0 and done.stderr == ""
    first, second, *_, last = done.stdout.splitlines()
    assert first.startswith("0.0% of the 300 tokens that the model wrote are copied")
    assert second.endswith("of as much held-out text is in such passages: common language.")
    assert last.startswith("The model copies about as much as held-out text does")


def test_what_cannot_be_measured_is_one_line(trained, tmp_path):
    folder, _ = trained
    (line,) = refused("memorized", "nowhere", cwd=tmp_path)
    assert "nowhere" in line
    (line,) = refused("memorized", "runs/book-1", "--state", "newest", cwd=folder)
    assert line == "minigpt: --state newest: should be best or last"
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy/book.txt").write_text("Another text.\n" * 50)
    (line,) = refused("memorized", "runs/book-1", cwd=tmp_path / "copy")
    assert line.startswith("minigpt: RUN runs/book-1: its text (data.source = 'files') has changed")
