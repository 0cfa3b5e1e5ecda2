"""Commands in messages can be pasted into a shell, also for paths with spaces and quotes."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from minigpt.insight.report.report import report_facts
from minigpt.runs.run import Run
from tests.cli.running import called, refused

SPACED = "my friend's run"


@pytest.fixture
def interrupted(tiny_run, tmp_path) -> Path:
    """A run whose directory needs quotes, with a verdict that advises to resume it."""
    run = Path(shutil.copytree(tiny_run.path, tmp_path / SPACED))
    analysis = json.loads((run / "analysis.json").read_text())
    (run / "analysis.json").write_text(json.dumps(analysis | {"state": "interrupted"}))
    return run


def test_the_command_of_the_doctor(interrupted, tmp_path):
    shown = called("doctor", SPACED, cwd=tmp_path).stdout
    (command,) = set(re.findall("`(.*)`", shown))
    assert shlex.split(command) == ["minigpt", "train", "--resume", SPACED]
    record = json.loads(called("doctor", SPACED, "--json", cwd=tmp_path).stdout)
    assert f"`{command}`" in record["verdicts"][0]["action"]
    done = called(*shlex.split(command)[1:], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    # What is recorded names no folder; the report, which has it, names the run alone.
    assert "RUN" in json.loads((interrupted / "analysis.json").read_text())["verdicts"][0]["action"]
    (verdict,) = [v for v in report_facts(Run(interrupted))["verdicts"] if v["id"] == "too_short"]
    (command,) = re.findall("`(.*)`", verdict["action"])
    assert SPACED in shlex.split(command)


def test_commands_for_the_other_kind_of_model(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / SPACED)
    (line,) = refused("translate", SPACED, "--text", "a", cwd=tmp_path)
    assert shlex.split(line.split("use: ")[1]) == ["minigpt", "sample", SPACED]
    (line,) = refused("evaluate", f"{SPACED}/model.gguf", cwd=tmp_path)
    assert line.endswith("needs --text")
    assert called("sample", f"{SPACED}/model.gguf", cwd=tmp_path).returncode == 0 and run
