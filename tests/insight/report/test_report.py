"""The report as a file: what is selected, damaged records, and its size. tests/browser opens it."""

import json
import math
import subprocess
import sys

import pytest

import minigpt
from minigpt.insight.report.report import REPORT_FILE, write_report
from minigpt.runs.analysis import TITLES
from tests.insight.report.report_file import ReportFile
from tests.insight.report.report_runs import (
    BYTES_PER_TOKEN,
    FACTS,
    VERDICT,
    started_from_a_base,
    write_lines,
    write_records,
)

HOSTILE = "</script><img src=x onerror=alert(1)><!-- ]]> \u202e\u2028\0"


def report_of(*runs, output=None):
    output = output or runs[0].path / REPORT_FILE
    write_report(runs, output)
    return ReportFile(output)


def test_the_content_of_a_report(tmp_path):
    run = write_records(tmp_path / "run", analysis={})
    report = report_of(run)
    facts = report.run
    assert report.title == "run – report" and facts["name"] == "run"
    assert facts["verdicts"] == [{"title": TITLES["too_short"], **VERDICT}]
    assert facts["state"] == "finished" and "/home/" not in json.dumps(report.content)
    assert [record["epoch"] for record in facts["metrics"]] == [1, 2, 3, 4]
    assert facts["best_epoch"] == 4 and facts["epochs"] == 4
    assert facts["bytes_per_token"] == BYTES_PER_TOKEN
    assert facts["baselines"]["ppmd_bits_per_byte"] == 2.19
    assert [sample["prompt"] for sample in facts["samples"]] == ["Ana sat", ""]
    assert facts["memorization"]["best"]["samples"][0]["copied"] == [[8, 19]]
    assert report.content["version"] == minigpt.__version__
    assert facts["device"] == "CPU, 2 cores"


def test_only_a_run_that_began_from_a_model_names_one(tmp_path):
    """What the choice of the base measured is no score on the held-out text."""
    measured = FACTS | {"bits_before_training": {"model": 1.9, "ngram": 3.1}}
    run = write_records(tmp_path / "run", facts=measured)
    facts = report_of(run).run
    assert not facts["base"] and 1.9 not in facts["baselines"].values()
    tuned = started_from_a_base(write_records(tmp_path / "tuned", facts=measured))
    facts = report_of(tuned).run
    assert facts["base"] == "english" and 1.9 not in facts["baselines"].values()
    assert [record["epoch"] for record in facts["metrics"]] == [0, 1, 2, 3, 4]
    assert facts["epochs"] == 4 and facts["metrics"][0]["train_loss"] is None


def test_a_run_without_records(tmp_path):
    run = write_records(tmp_path / "run")
    for name in ("metrics.jsonl", "steps.jsonl", "samples.jsonl", "facts.json"):
        (run.path / name).unlink()
    facts = report_of(run).run
    assert facts["metrics"] == facts["samples"] == facts["steps"] == []
    assert facts["best_epoch"] is None and facts["parameters"] is None


DAMAGED = [
    "",
    "null",
    "[]",
    '"text"',
    "{",
    "[" * 100_000,
    '{"epoch": 1e999, "step": NaN}',
    '{"epoch": [1], "step": "a", "state": [], "verdicts": {}, "passages": [], "memorization": 5}',
    '{"epoch": 2, "step": true, "val_loss": "b", "text": 5, "prompt": {}, "mean_loss": []}',
    '{"epoch": 2, "step": 1' + "0" * 400 + ', "val_loss": 1' + "0" * 400 + "}",
    "model = 5\nnothing",
]


@pytest.mark.parametrize("name", ["metrics", "steps", "samples", "facts", "analysis", "config"])
def test_damaged_records(name, tmp_path):
    run = write_records(tmp_path / "run", epochs=2, analysis={})
    (file,) = run.path.glob(f"{name}.*")
    before = file.read_bytes() if file.suffix == ".jsonl" else b""
    for line in DAMAGED:
        file.write_bytes(before + line.encode() + b"\n" + b"\xff\xfe\n" * bool(before))
        facts = report_of(run).run
        assert_types(facts)
        if before:
            assert len(facts["metrics"]) >= 2 and len(facts["samples"]) >= 2
        if name == "config":
            assert facts["settings"] == [] or line in ("", "[]")


def assert_types(facts):
    """What the script of the page relies on."""

    def is_number(value):
        is_float = isinstance(value, int | float) and not isinstance(value, bool)
        return value is None or (is_float and math.isfinite(value))

    for record in [*facts["metrics"], *facts["steps"], *facts["positions"], *facts["frequencies"]]:
        assert all(map(is_number, record.values())), record
    assert all(map(is_number, facts["baselines"].values()))
    assert all(type(step) is int and step >= 0 for step in facts["resumed_at"])
    for record in [*(facts["verdicts"] or []), *(facts["text"] or [])]:
        assert all(isinstance(value, str) for value in record.values())
    for passages in facts["passages"].values():
        for passage in passages:
            assert all(isinstance(t, str) and is_number(loss) for t, loss in passage["tokens"])
    for measured in facts["memorization"].values():
        assert is_number(measured["share"])
        for sample in measured["samples"]:
            ends = [0, *(end for pair in sample["copied"] for end in pair)]
            assert ends == sorted(ends) and ends[-1] <= len(sample["text"])
    for group in facts["samples"]:
        assert all(isinstance(sample["text"], str) for sample in group["epochs"])
    assert facts["device"] is None or isinstance(facts["device"], str)


def test_hostile_texts_stay_texts(tmp_path):
    honest = report_of(write_records(tmp_path / "honest", analysis={}))
    name = "<img src=x onerror=alert(1)><!--<script>\u202e"
    verdict = dict.fromkeys(("id", "evidence", "action"), HOSTILE)
    run = write_records(
        tmp_path / name,
        prompts=[HOSTILE],
        text=HOSTILE,
        analysis={"verdicts": [verdict], "version": HOSTILE},
    )
    report = report_of(run)
    assert report.names == honest.names
    assert report.title == name.replace("\u202e", "\\u202e") + " – report"
    assert report.run["verdicts"] == [{"title": HOSTILE, **verdict}]
    assert report.run["samples"][0]["epochs"][0]["text"] == f"{HOSTILE} Epoch 1."


def test_a_name_that_is_not_unicode(tmp_path):
    run = write_records(tmp_path / "run\udcff", analysis={})
    assert report_of(run).run["name"] == "run\udcff"
    damaged = write_records(tmp_path / "other", text="\ud800", prompts=["\ud800"])
    assert report_of(damaged).run["samples"][0]["epochs"][0]["text"].startswith("\ud800")


def test_the_size_of_a_report_of_500_epochs(tmp_path):
    """With texts that JSON stores in six characters for each of theirs."""
    run = write_records(
        tmp_path / "run", epochs=500, prompts=list("abcde"), text="язык " * 200, analysis={}
    )
    report = report_of(run)
    assert (run.path / REPORT_FILE).stat().st_size < 1_500_000
    facts = report.run
    assert len(facts["metrics"]) == 500
    for group in facts["samples"]:
        epochs = [sample["epoch"] for sample in group["epochs"]]
        assert epochs[0] == 1 and epochs[-1] == 500 and 5 <= len(epochs) <= 61
    assert len(facts["steps"]) <= 800


def test_the_best_epoch_is_among_those_with_samples(tmp_path):
    run = write_records(tmp_path / "run", epochs=200)
    lines = [json.loads(line) for line in run.metrics_file.open()]
    lines[76]["val_loss"] = 0.5
    write_lines(run.metrics_file, lines)
    facts = report_of(run).run
    assert facts["best_epoch"] == 77
    assert 77 in [sample["epoch"] for sample in facts["samples"][0]["epochs"]]


def test_long_texts_are_cut(tmp_path):
    run = write_records(tmp_path / "run", analysis={})
    lines = [{"epoch": 1, "prompt": str(at), "text": "a" * 10**5} for at in range(200)]
    write_lines(run.path / "samples.jsonl", lines)
    assert report_of(run) and (run.path / REPORT_FILE).stat().st_size < 500_000


def test_only_the_report_in_the_run_reloads_itself(tmp_path):
    run = write_records(tmp_path / "run", analysis={"state": "training"})
    other = write_records(tmp_path / "other", analysis={"state": "training"})
    assert report_of(run).content["refreshes"] is True
    assert report_of(run, output=tmp_path / "copy.html").content["refreshes"] is False
    assert report_of(run, other, output=run.path / "two.html").content["refreshes"] is False


def test_a_comparison_has_less_of_each_run(tmp_path):
    runs = [write_records(tmp_path / name, epochs=5, analysis={}) for name in ("a", "b")]
    report = report_of(*runs, output=tmp_path / "new" / "comparison.html")
    assert report.title == "Comparison of 2 runs"
    for facts in report.content["runs"]:
        assert facts["steps"] == [] and len(facts["metrics"]) == 5
        assert [sample["epoch"] for sample in facts["samples"][0]["epochs"]] == [5]


def test_neither_tensorflow_nor_gguf_is_imported(tmp_path):
    """The report is written after every epoch, and by a command that should be quick."""
    run = write_records(tmp_path / "run", analysis={})
    command = f"""
import sys, minigpt
minigpt.write_report([{str(run.path)!r}], {str(tmp_path / "report.html")!r})
sys.exit(str({{"tensorflow", "keras", "gguf"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert done.stderr.strip() == "set()"
