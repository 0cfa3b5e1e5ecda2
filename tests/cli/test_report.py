"""`minigpt report`: where it writes, and what it refuses."""

import json
import shutil

import pytest

from tests.cli.running import called, refused
from tests.insight.report.report_file import ReportFile
from tests.insight.report.report_runs import write_records


@pytest.fixture
def runs(tmp_path):
    for name in ("a", "b"):
        write_records(tmp_path / name, analysis={})
    return tmp_path


def test_one_run_has_its_report_in_its_directory(runs):
    for _ in range(2):
        done = called("report", "a", cwd=runs)
        assert (done.returncode, done.stdout) == (0, "Wrote a/report.html\n")
    assert ReportFile(runs / "a" / "report.html").run["name"] == "a"
    # Given as the output, it is replaced as well.
    assert called("report", "a", "--output", "a/report.html", cwd=runs).returncode == 0


def test_several_runs_are_compared(runs):
    done = called("report", "a", "b", "--output", "new/comparison.html", cwd=runs)
    assert done.stdout == "Wrote new/comparison.html\n"
    content = ReportFile(runs / "new" / "comparison.html").content
    assert [run["name"] for run in content["runs"]] == ["a", "b"]


def test_what_is_refused(runs):
    (runs / "mine.html").write_text("mine")
    called("report", "b", cwd=runs)
    cases = {
        ("a", "b"): "--output",
        ("a", "--output", "mine.html"): "--output mine.html",
        # The report of another run, and that of one run in place of a comparison.
        ("a", "--output", "b/report.html"): "--output b/report.html",
        ("a", "b", "--output", "b/report.html"): "--output b/report.html",
        ("a", "c", "--output", "new.html"): "RUN c",
        ("a", "--output", "mine.html/report.html"): "mine.html/report.html",
    }
    for arguments, expected in cases.items():
        (line,) = refused("report", *arguments, cwd=runs)
        assert line.startswith(f"minigpt: {expected}: ")
    assert (runs / "mine.html").read_text() == "mine" and not (runs / "new.html").exists()


def test_an_own_report_that_cannot_be_written(runs):
    (runs / "a" / "report.html").mkdir()
    (line,) = refused("report", "a", cwd=runs)
    # Without "--output", which nobody has given.
    assert line.startswith("minigpt: a/report.html: ")


def test_the_doctor_measures_what_training_has_not(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    for file in ("analysis.json", "steps.jsonl", "report.html"):
        (run / file).unlink()
    done = called("doctor", "run", cwd=tmp_path)
    assert "Measuring: memorization." in done.stderr
    report = ReportFile(run / "report.html").run
    assert report["verdicts"] is not None and report["baselines"]["ppmd_bits_per_byte"] > 0
    assert "Measuring" not in called("doctor", "run", cwd=tmp_path).stderr


def test_what_cannot_be_measured_is_said(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    (run / "analysis.json").unlink()
    corpus = json.loads((run / "corpus.json").read_text(encoding="utf-8"))
    (run / "corpus.json").write_text(json.dumps(corpus | {"fingerprint": "0" * 64}))
    done = called("doctor", "run", cwd=tmp_path)
    assert "run = 'run'" in done.stderr
