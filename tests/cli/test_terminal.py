"""Output to a terminal, to a pipe, and to a program that reads JSON."""

import io
import json
import math
import sys

import pytest

from minigpt.cli.terminal import print_json, print_message, print_text

ESCAPES = "\x1b[2J[/INST] \x9b1m\x7f\n\t☃"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
