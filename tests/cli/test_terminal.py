"""Output to a terminal, to a pipe, and to a program that reads JSON."""

import io
import json
import math
import shutil
import sys

import pytest

from minigpt.cli.terminal import print_json, print_message, print_text
from tests.cli.running import SMALL, Terminal, called
from tests.tiny import tiny_text

ESCAPES = "\x1b[2J[/INST] \x9b1m\x7f\n\t☃"


SHOWN = r"\x1b[2J[/INST] \x9b1m\x7f"


@pytest.mark.parametrize(
    ("show", "stream", "in_a_pipe"),
    [(print_text, "stdout", ESCAPES), (print_message, "stderr", SHOWN)],
)
def test_control_characters(show, stream, in_a_pipe, monkeypatch):
    """Terminals and messages show them as escapes; a pipe gets text as it is."""
    for file, expected in ((Terminal(), SHOWN), (io.StringIO(), in_a_pipe)):
        monkeypatch.setattr(sys, stream, file)
        show(ESCAPES)
        assert file.getvalue().startswith(expected)
        assert file.getvalue().endswith("\n\t☃\n")


@pytest.mark.parametrize("command", ["doctor", "memorized", "evaluate", "train"])
def test_lines_are_broken_at_the_width_of_a_terminal(command, tiny_run, tmp_path, monkeypatch):
    """Except lines with a command, which is copied. A pipe gets each line as it is."""
    run = shutil.copytree(tiny_run.path, tmp_path / "run")
    (tmp_path / "book.txt").write_text(tiny_text())
    text = ["--text", "book.txt"]
    options = [*text, "--base", "none", "--plan", *SMALL] if command == "train" else [run]
    options += text if command == "evaluate" else []
    monkeypatch.setenv("COLUMNS", "64")
    shown, piped = (
        called(command, *options, cwd=tmp_path, output=output).stdout.splitlines()
        for output in (Terminal(), io.StringIO())
    )
    assert any(len(line) > 64 for line in piped)
    assert all(len(line) <= 64 for line in shown if "`" not in line)
    if command != "train":  # The time that it takes is measured again.
        assert " ".join(shown).split() == " ".join(piped).split()


def test_json(capsys):
    print_json({"text": ESCAPES, "perplexity": math.inf, "loss": math.nan, "tokens": 3})
    line = capsys.readouterr().out
    assert not set(line.rstrip("\n")) & set(map(chr, [*range(32), *range(127, 160)]))
    assert json.loads(line, parse_constant=pytest.fail) == {
        "text": ESCAPES,
        "perplexity": None,
        "loss": None,
        "tokens": 3,
    }
