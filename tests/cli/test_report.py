"""`minigpt report`: where it writes, and what it refuses."""

import pytest

from tests.cli.running import called, refused
from tests.pages.report_file import ReportFile
from tests.pages.report_runs import write_records


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
        ("a", "b"): "minigpt: --output: should be given with several runs, as a new file",
        ("a", "--output", "mine.html"): "minigpt: --output mine.html: exists; should be a new file",
        # The report of another run, and that of one run in place of a comparison.
        ("a", "--output", "b/report.html"): "--output b/report.html: exists",
        ("a", "b", "--output", "b/report.html"): "--output b/report.html: exists",
        ("c",): "minigpt: RUN c: does not exist; expected a run directory",
        ("a", "c", "--output", "new.html"): "minigpt: RUN c: does not exist",
        ("a", "--output", "mine.html/report.html"): "--output mine.html/report.html: ",
    }
    for arguments, expected in cases.items():
        (line,) = refused("report", *arguments, cwd=runs)
        assert expected in line
    assert (runs / "mine.html").read_text() == "mine" and not (runs / "new.html").exists()


def test_an_own_report_that_cannot_be_written(runs):
    (runs / "a" / "report.html").mkdir()
    (line,) = refused("report", "a", cwd=runs)
    assert "a/report.html: cannot be written: Is a directory" in line
