"""`minigpt translate` and its neighbours on a run of pairs, as a user calls them."""

import json

import pytest

from tests.cli.running import called, minigpt


def test_a_line_a_source_line_and_nothing_else(pair_run):
    lines = "a b c\n\n  \nh g a\r\nd e f"
    done = minigpt("translate", pair_run.path, input=lines)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "c b a\n\n\na g h\nf e d\n"
    assert done.stderr == ""
    assert called("translate", pair_run.path).stdout == ""
    done = called("translate", pair_run.path, "--json", input="a b c\n\n")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"source": "a b c", "translation": "c b a"},
        {"source": "", "translation": ""},
    ]


def test_texts_and_a_file(pair_run, tmp_path):
    (tmp_path / "lines.txt").write_text("d e f\n\ng h a\n")
    done = called(
        "translate", pair_run.path, "--text", "a b c", "--text", "b c d", "--beams", 3,
        "--file", tmp_path / "lines.txt", "--length-penalty", 0.6,
    )  # fmt: skip
    assert done.stdout == "c b a\nd c b\nf e d\n\na h g\n"


def test_most_new_tokens(pair_run):
    done = called("translate", pair_run.path, "--text", "a b c", "--max-new-tokens", 3)
    assert done.stdout == "c b\n"


def test_a_source_that_is_too_long_is_said(pair_run):
    done = called("translate", pair_run.path, input="a b\n" + "a b c d " * 5 + "\n")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    (line,) = done.stderr.splitlines()
    assert line == (
        "source 2 has 40 tokens, end token included: "
        "only the first 19 are translated, because model.max_len = 20"
    )


def test_evaluate(pair_run, tmp_path):
    (tmp_path / "more.tsv").write_text("a b c d e\te d c b a\nb c d e f\tf e d c b\n")
    done = called("evaluate", pair_run.path, "--text", tmp_path / "more.tsv", "--json")
    scored = json.loads(done.stdout)
    assert scored["pairs"] == 2 and scored["tokens"] == 20 and scored["bytes"] == 18
    assert scored["bleu"] == pytest.approx(100)
    assert (
        "BLEU 100.00" in called("evaluate", pair_run.path, "--text", tmp_path / "more.tsv").stdout
    )
