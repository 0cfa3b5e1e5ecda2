"""analysis.json: what is written is read, and a damaged or foreign file costs one line."""

import json

import pytest

from minigpt.runs.analysis import Analysis, Finding, read_analysis, write_analysis
from tests.insight.report.report_runs import analysis_of


def test_what_is_written_is_read(tmp_path):
    file = tmp_path / "analysis.json"
    file.write_text(json.dumps(analysis_of(4)))
    found = read_analysis(file)
    assert found.state == "finished" and found.memorization["best"].share == 0.031
    write_analysis(file, found)
    assert read_analysis(file) == found
    # The name of a file may have no encoding.
    write_analysis(file, Analysis(text=[Finding("html", "\udcff")]))
    assert read_analysis(file).text == [Finding("html", "?")]


def test_a_missing_file_is_no_problem(tmp_path, messages):
    assert read_analysis(tmp_path / "analysis.json") == Analysis()
    assert messages() == []


def test_later_versions_may_add_keys(tmp_path, messages):
    file = tmp_path / "analysis.json"
    verdict = {"id": "not_known_yet", "evidence": "5%", "action": "", "sure": True}
    file.write_text(json.dumps({"state": "failed", "sweep": [1], "verdicts": [verdict]}))
    found = read_analysis(file)
    assert (found.state, found.verdicts[0].title) == ("failed", "not known yet")
    assert messages() == []


@pytest.mark.parametrize(
    "content",
    [
        *("", "null", "[]", '"text"', "{", "[" * 100_000, "\xff\xfe", '{"state": "unheard of"}'),
        *('{"state": []}', '{"verdicts": {}}', '{"verdicts": [{"id": 5}]}', '{"text": [{}]}'),
        *('{"written": NaN}', '{"written": 1e999}', '{"planned_steps": 1' + "0" * 400 + "}"),
        *('{"resumed_at": [-1]}', '{"positions": [{"from": "a"}]}', '{"bytes_per_token": 0}'),
        '{"passages": {"hardest": [{"loss": 1, "tokens": [["a", null]]}]}}',
        '{"memorization": {"best": {"samples": [{"text": 5}]}}}',
        '{"held_out": {"unigram": [1, 2, 3]}}',
        json.dumps({"text": [{"kind": "html", "evidence": "a" * 10_001}]}),
        json.dumps({"verdicts": [{"id": "a", "evidence": "", "action": ""}] * 201}),
        json.dumps(analysis_of(4)).replace('"copied": [[', '"copied": [[0, 100000], ['),
    ],
)
def test_a_damaged_file_is_one_line(content, tmp_path, messages):
    file = tmp_path / "analysis.json"
    file.write_bytes(content.encode("latin-1"))
    assert read_analysis(file) == Analysis()
    (line,) = messages()
    assert str(file) in line and "\n" not in line
