"""`minigpt translate` and its neighbours on a run of pairs, as a user calls them."""

import json

import pytest

from tests.cli.running import called, minigpt, refused


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


def test_unknown_characters_are_said(pair_run):
    done = called("translate", pair_run.path, "--text", "a b c", "--text", "a ß c")
    assert done.stderr.splitlines() == [
        "source 2: 1 of its characters are unknown to the tokenizer and are read as bytes"
    ]


def test_evaluate(pair_run, tmp_path):
    (tmp_path / "more.tsv").write_text("a b c d e\te d c b a\nb c d e f\tf e d c b\n")
    done = called("evaluate", pair_run.path, "--text", tmp_path / "more.tsv", "--json")
    scored = json.loads(done.stdout)
    assert scored["pairs"] == 2 and scored["tokens"] == 20 and scored["bytes"] == 18
    assert scored["bleu"] == pytest.approx(100)
    assert (
        "BLEU 100.00" in called("evaluate", pair_run.path, "--text", tmp_path / "more.tsv").stdout
    )


def test_commands_of_the_other_kind_of_model_are_refused(pair_run, tiny_run, tmp_path):
    assert refused("sample", pair_run.path, "--prompt", "a", cwd=tmp_path) == [
        f"minigpt: RUN {pair_run.path}: is a translation model; use: minigpt translate {pair_run.path}"
    ]
    assert refused("translate", tiny_run.path, "--text", "a", cwd=tmp_path) == [
        f"minigpt: RUN {tiny_run.path}: is not a translation model; use: minigpt sample {tiny_run.path}"
    ]


def test_what_cannot_be_used_is_refused_in_one_line(pair_run, tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"a\nb \xfc\n")
    for arguments, right in {
        ("--file", tmp_path / "none.txt"): "--file {}: cannot be read: No such file",
        ("--file", tmp_path / "latin.txt"): "--file {}: not valid UTF-8 at byte 4 (line 2)",
        ("--text", "a", "--beams", 0): "--beams 0: should be",
        (
            "--text",
            "a",
            "--length-penalty",
            2,
        ): "--length-penalty 2.0: has an effect only with --beams 2",
        ("--text", "a \udcff"): "not valid Unicode at character 2",
        ("--text", "a", "--max-new-tokens", -1): "--max-new-tokens",
    }.items():
        (line,) = refused("translate", pair_run.path, *arguments, cwd=tmp_path)
        assert right.format(arguments[1]) in line
    done = called("translate", tmp_path, input="a\n")
    assert done.returncode == 2 and "contains no config.toml" in done.stderr and not done.stdout


def test_pair_files_are_refused_before_anything_is_written(tmp_path):
    (tmp_path / "bad.tsv").write_text("a\tb\nno tab here\n\tempty source\n")
    lines = refused(
        "train", "--config", "translate_eng_deu", "--text", "bad.tsv", "--run", "run", cwd=tmp_path
    )
    assert lines == [
        "minigpt: bad.tsv: 1 line has no tab (line 2); each should be SOURCE, a tab, TARGET",
        "minigpt: bad.tsv: 1 line has an empty source sentence (line 3); "
        "each should be SOURCE, a tab, TARGET",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tsv"]
