"""Certificates in the run directory, and in its report."""

import json
import logging
import shutil

import pytest

import minigpt
from minigpt.runs.run import Run
from tests.insight.report.report_file import ReportFile
from tests.insight.report.report_runs import write_state
from tests.targets.test_certificate import SMALL


@pytest.fixture
def run(tiny_run, tmp_path, monkeypatch):
    for name, value in SMALL.items():
        monkeypatch.setattr(f"minigpt.targets.comparison.{name}", value)
    return Run(
        shutil.copytree(
            tiny_run.path, tmp_path / "run", ignore=shutil.ignore_patterns("certificates")
        )
    )


def export(run, path, **options):
    found = minigpt.export_run(run, "gguf", path, certificate=True, **options)
    assert found
    return found


def shown(run):
    return ReportFile(run.report_file).run["certificates"]


def test_an_export_is_recorded_and_shown(run, tmp_path):
    certificate = export(run, tmp_path / "a.gguf")
    (file,) = run.certificates_folder.iterdir()
    text = file.read_text()
    assert json.loads(text) == {"name": "a.gguf", **certificate}
    assert str(tmp_path) not in text
    (record,) = shown(run)
    assert record["name"] == "a.gguf" and record["is_current"] is True
    assert record["checkpoint"] == "step-00000080-epoch-2"
    assert record["bytes"] == (tmp_path / "a.gguf").stat().st_size
    # Trained on, the run has another best model.
    write_state(run, 120, 3)
    minigpt.write_report([run], run.report_file)
    assert [record["is_current"] for record in shown(run)] == [False]


def test_the_same_export_again_replaces_its_certificate(run, tmp_path):
    export(run, tmp_path / "a.gguf")
    (tmp_path / "int8").mkdir()
    export(run, tmp_path / "int8" / "a.gguf", weights="int8")
    verified = minigpt.verify(tmp_path / "a.gguf", run)
    assert verified["checkpoint"]["name"] == "step-00000080-epoch-2"
    assert len(list(run.certificates_folder.iterdir())) == 2
    dates = {record["weights"]: record["date"] for record in shown(run)}
    assert dates == {"float32": verified["date"], "int8": dates["int8"]}


def test_a_run_that_cannot_be_written_to(run, tmp_path, caplog):
    run.certificates_folder.write_text("a file")  # Root may write everywhere.
    with caplog.at_level(logging.WARNING, logger="minigpt"):
        export(run, tmp_path / "a.gguf")
    assert (tmp_path / "a.gguf").is_file() and (tmp_path / "a.gguf.certificate.json").is_file()
    (message,) = [record.getMessage() for record in caplog.records]
    assert str(run.path) in message and "\n" not in message


def test_a_run_without_a_report_gets_none(run, tmp_path):
    run.report_file.unlink()
    minigpt.export_run(run, "gguf", tmp_path / "a.gguf")
    assert not run.certificates_folder.exists()
    export(run, tmp_path / "b.gguf")
    assert not run.report_file.exists() and len(list(run.certificates_folder.iterdir())) == 1
