"""The certificates of exports in the report."""

import math

import pytest

from tests.insight.report.report_runs import write_certificate, write_records, write_state
from tests.insight.report.test_report import HOSTILE, report_of


@pytest.fixture
def run(tmp_path):
    return write_records(tmp_path / "run", analysis={})


def test_the_values_of_a_certificate(run):
    write_certificate(run)
    assert report_of(run).run["certificates"] == [
        {
            "name": "stories.gguf",
            "format": "gguf",
            "weights": "int8",
            "date": "2026-11-23T09:00:00+00:00",
            "bytes": 2_940_000,
            "has_logits": True,
            "largest_difference": 0.1234,
            "same_texts": 41,
            "prompts": 50,
            "source_bits": 1.23456,
            "export_bits": 1.23512,
            "compared_tokens": 2000,
            "compared_text": "held-out text of the run",
            "same_lines": 2000,
            "lines": 2000,
            "tokens_per_second": 1716.2,
            "problems": [],
            "checkpoint": None,
            "is_current": None,
        }
    ]


def test_the_newest_is_first(run):
    for day in (12, 3, 25):
        write_certificate(run, f"{day}.gguf", date=f"2026-11-{day:02}T09:00:00+00:00")
    names = [record["name"] for record in report_of(run).run["certificates"]]
    assert names == ["25.gguf", "12.gguf", "3.gguf"]


def test_the_certificate_of_older_weights_is_marked(run):
    write_certificate(run, checkpoint=write_state(run, 40, 2))
    assert report_of(run).run["certificates"][0]["is_current"] is True
    # The run is trained on.
    newer = write_state(run, 60, 3)
    (record,) = report_of(run).run["certificates"]
    assert record["is_current"] is False and record["checkpoint"] == "step-00000040-epoch-2"
    write_certificate(run, "new.gguf", checkpoint=newer, date="2026-11-24T09:00:00+00:00")
    found = [record["is_current"] for record in report_of(run).run["certificates"]]
    assert found == [True, False]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"format": 5}',
        '{"format": "gguf"}',
        '{"format": "gguf", "problems": {}, "logits": [], "greedy": 5, "tokenizer": null, "date": 5}',
        '{"format": "gguf", "problems": [1, {}, "a"], "logits": {"largest_difference": NaN}, '
        '"bytes": -1, "tokens_per_second": 1e999, "checkpoint": {"sha256": 5, "name": []}}',
    ],
)
def test_damaged_certificates(content, run):
    write_certificate(run)
    (run.certificates_folder / "damaged.json").write_text(content)
    (run.certificates_folder / "folder.json").mkdir()
    records = report_of(run).run["certificates"]
    assert "stories.gguf" in [record["name"] for record in records] and len(records) <= 2
    for record in records:
        for name in ("bytes", "same_texts", "prompts", "same_lines", "lines", "compared_tokens"):
            assert record[name] is None or type(record[name]) is int
        for name in ("largest_difference", "source_bits", "export_bits", "tokens_per_second"):
            assert record[name] is None or math.isfinite(record[name])
        for name in ("name", "weights", "date", "checkpoint", "compared_text"):
            assert record[name] is None or isinstance(record[name], str)
        assert record["problems"] is None or all(isinstance(p, str) for p in record["problems"])
        assert record["is_current"] is None


def test_hostile_and_many_certificates(run):
    plain = report_of(run).names
    for _ in range(60):
        write_certificate(run, HOSTILE * 1000, format=HOSTILE, weights=HOSTILE, problems=[HOSTILE])
    report = report_of(run)
    assert report.names == plain
    records = report.run["certificates"]
    assert len(records) == 50 and records[0]["problems"] == [HOSTILE]
    assert max(len(record["name"]) for record in records) == 301
