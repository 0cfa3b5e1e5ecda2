"""`minigpt memorized`."""

import json
import shutil

import pytest

import minigpt
from minigpt import Run
from minigpt.cli import examining
from minigpt.runs.analysis import TITLES, Memorization
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


@pytest.mark.parametrize(("share", "is_memorized"), [(0.88, False), (1.0, True)])
def test_the_word_is_that_of_the_doctor(share, is_memorized, monkeypatch, capsys):
    measured = {"epoch": 1, "step": 1, "tokens": 300, "words": 60, "samples": []}
    found = Memorization("best", share=share, held_out_share=0.7, **measured)
    monkeypatch.setattr(minigpt, "measure_memorization", lambda *_, **__: found)
    monkeypatch.setattr(minigpt, "Run", lambda path: path)
    examining.memorized(run="run", as_json=False)
    said = f"{TITLES['memorized']} (state: best).\n"
    assert (said in capsys.readouterr().out) == is_memorized


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
