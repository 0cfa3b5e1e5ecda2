"""`minigpt doctor`."""

import json
import shutil

from minigpt.analysis.verdict import TITLES
from tests.cli.running import called, refused


def test_verdicts_as_json_and_in_words(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    result = called("doctor", run, "--no-sweep", "--json")
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert list(found) == ["verdicts"]
    for verdict in found["verdicts"]:
        assert set(verdict) == {"id", "evidence", "action"} and verdict["id"] in TITLES
    # What was measured is in the report from now on.
    analysis = json.loads((run / "analysis.json").read_text(encoding="utf-8"))
    assert analysis["verdicts"] == found["verdicts"]
    assert analysis["memorization"]["last"]["epoch"] == 2
    assert isinstance(analysis["text"], list) and analysis["baselines"]["xz_bits_per_byte"] > 0
    assert "sweep" not in analysis


def test_problems_are_one_line(tmp_path, tiny_run):
    imported = shutil.copytree(tiny_run.path, tmp_path / "run")
    (imported / "corpus.json").unlink()
    for run, problem in ((tmp_path / "none", "does not exist"), (imported, "was imported")):
        (line,) = refused("doctor", run, cwd=tmp_path)
        assert problem in line
