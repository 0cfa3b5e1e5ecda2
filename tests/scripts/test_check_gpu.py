"""The script that checks a machine with GPUs: its list, its report, and a run of all of it on a CPU."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import check_gpu

ROOT = Path(__file__).resolve().parents[2]


def test_the_document_has_the_checks_of_the_script():
    section = (ROOT / "docs" / "gpu.md").read_text().partition("## Checks\n")[2]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(check_gpu.CHECKS)
    assert all(check.__doc__ for check in check_gpu.CHECKS.values())


def test_without_a_gpu(tmp_path):
    result, reason = check_gpu.in_this_process("device", tmp_path, allow_cpu=False)
    assert result == "failed" and "--allow-cpu" in reason
    result, figures = check_gpu.in_this_process("device", tmp_path, allow_cpu=True)
    assert result == "passed" and figures.startswith("1 x CPU, ")


def ended(monkeypatch, status: int, output: str = "", errors: str = "") -> None:
    """Each process of a check ends so."""
    process = subprocess.CompletedProcess([], status, output, errors)
    monkeypatch.setattr(check_gpu.subprocess, "run", lambda *arguments, **options: process)


@pytest.mark.parametrize("result", ["passed", "skipped", "failed"])
def test_the_report_and_the_status(result, tmp_path, monkeypatch, capsys):
    report = tmp_path / "report.md"
    only = ["--only", "xla", "--only", "resume", "--output", str(report)]
    monkeypatch.setattr(sys, "argv", ["check_gpu.py", *only])
    ended(monkeypatch, 0, "noise\n" + json.dumps([result, "1.5 | 2"]) + "\n")
    assert check_gpu.main() == int(result == "failed")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \| 0 \|$", report.read_text(), re.MULTILINE)
    assert rows == [("xla", result, "1.5 / 2"), ("resume", result, "1.5 / 2")]
    assert "| tensorflow | 2." in report.read_text()
    assert f"xla: {result}: 1.5 | 2\n" in capsys.readouterr().out


@pytest.mark.slow
def test_all_of_it_on_a_cpu(tmp_path):
    """Two devices are simulated. What needs a GPU is skipped."""
    command = [sys.executable, str(ROOT / "scripts" / "check_gpu.py"), "--allow-cpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) ", (tmp_path / "gpu-report.md").read_text(), re.MULTILINE
    )
    assert [name for name, _ in rows] == list(check_gpu.CHECKS)
    assert {name for name, result in rows if result != "passed"} == {"memory"}
