"""Text shown on a terminal, in a pipe, and as durations and counts."""

import io
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from minigpt.training.console import new_console, show
from minigpt.training.progress import Display


def shown(*parts, terminal: bool, indent: int | None = 0, **options) -> str:
    file = io.StringIO()
    show(Console(file=file, force_terminal=terminal, width=20, **options), *parts, indent=indent)
    return file.getvalue()


HOSTILE = "[/INST] [bold]a[/] :smile: \x1b]0;title\x07\x1b[2J\r\x9b1m\b\x7f\x00 b\tc\nd \udc80"


@pytest.mark.parametrize("markup", [True, False])
def test_on_a_terminal_markup_is_text_and_control_characters_are_visible(markup):
    how = {"terminal": True, "indent": None, "markup": markup, "highlight": False}
    out = shown(HOSTILE, ("[x]", "cyan"), **how)
    assert "[/INST] [bold]a[/] :smile: \\x1b]0;title\\x07\\x1b[2J\\r\\x9b1m\\x08\\x7f\\x00 b" in out
    assert "\nd \\udc80" in out
    assert out.endswith("\x1b[36m[x]\x1b[0m\n")
    # The style is the only sequence sent.
    assert out.count("\x1b") == 2


def test_on_a_terminal_words_are_not_broken():
    text = "Training loss and validation loss of an epoch"
    file = io.StringIO()
    show(Console(file=file, force_terminal=True, width=20), text)
    out = file.getvalue()
    assert out.split() == text.split() and max(map(len, out.splitlines())) <= 20


@pytest.mark.parametrize("markup", [True, False])
def test_a_pipe_receives_the_text_unchanged(markup):
    assert shown(HOSTILE, ("[x]", "cyan"), terminal=False, markup=markup) == f"{HOSTILE}[x]\n"


def test_the_console_imports_no_tensorflow():
    code = "import sys, minigpt.training.console; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_output_that_nobody_reads_any_more(monkeypatch):
    """rich itself would end the process without a word about the last checkpoint."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(BrokenPipeError):
            show(new_console(), "a line" * 10_000)
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_sample_has_no_blank_lines_in_a_row(terminal):
    file = io.StringIO()
    display = SimpleNamespace(console=Console(file=file, force_terminal=terminal, width=80))
    Display.show_sample(display, "Once", " upon\n\n \n\n\na time\n\n")
    Display.show_sample(display, "", "a\n\n\nb")
    assert "\n\n\n" not in re.sub(r"\x1b\[\d*m|(?m: +$)", "", file.getvalue())
    assert "a time\n\n" in file.getvalue()
