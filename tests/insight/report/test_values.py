"""The settings in a report: which of them differ from the defaults."""

import pytest

from minigpt.insight.report.report import report_facts, setting_rows
from tests.insight.report.report_runs import write_records


def test_settings_that_differ_from_the_defaults(tmp_path):
    text = {"source": "files", "paths": ["/home/somebody/secret/book.txt"]}
    settings = {"data": text, "training": {"batch_size": 7}}
    rows = setting_rows(write_records(tmp_path / "run", settings=settings).config)
    differ = {row["name"]: row["value"] for row in rows if row["differs"]}
    assert differ == {
        "data.source": '"files"',
        # Whoever is given the report does not learn the folders of the one who wrote it.
        "data.paths": '["book.txt"]',
        "model.max_len": "32",
        "model.embed_dim": "16",
        "model.num_heads": "2",
        "model.num_layers": "1",
        "training.batch_size": "7",
    }


def test_the_default_run_differs_in_nothing(tmp_path):
    """Its sizes are those of the bundled stories."""
    run = write_records(tmp_path / "run", settings={"model": {}})
    rows = setting_rows(run.config)
    assert rows and not [row for row in rows if row["differs"] is not False]


@pytest.mark.parametrize("kind", ["pre_norm", "post_norm", "modern"])
def test_settings_that_follow_from_others_do_not_differ(kind, tmp_path):
    """A head is as wide as the width and the number of heads say; a block has its own defaults."""
    settings = {"model": {"block": kind, "embed_dim": 96, "num_heads": 6}}
    rows = setting_rows(write_records(tmp_path / "run", settings=settings).config)
    differ = {row["name"] for row in rows if row["differs"] and row["name"].startswith("model.")}
    assert differ <= {"model.block", "model.embed_dim", "model.num_heads"}


@pytest.mark.parametrize("source", ["dialogues", "stories"])
def test_the_source_of_a_passage_is_shown_with_it(tmp_path, source):
    passages = {
        "hardest": [
            {"loss": 2.0, "source": "Where is Ana?\nHere.\nWhere?", "tokens": [["So", 2.0]]},
            {"loss": 1.0, "tokens": [["a", 1.0]]},
        ]
    }
    settings = {"data": {"source": source}}
    run = write_records(tmp_path / "run", settings=settings, analysis={"passages": passages})
    facts = report_facts(run)
    first, second = facts["passages"]["hardest"]
    assert first["source"] == "Where is Ana?\nHere.\nWhere?" and second["source"] is None
    # The answer of a sample has a line of its own.
    ending = "\n" * (source == "dialogues")
    assert [group["prompt"] for group in facts["samples"]] == [f"Ana sat{ending}", ending]
