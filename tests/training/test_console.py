"""Text shown on a terminal, in a pipe, and as durations and counts."""

import io
import os
import subprocess
import sys

import pytest
from rich.console import Console

from minigpt.training.console import new_console, show


def shown(*parts, terminal: bool, **options) -> str:
    file = io.StringIO()
    show(Console(file=file, force_terminal=terminal, width=20, **options), *parts)
    return file.getvalue()


HOSTILE = "[/INST] [bold]a[/] :smile: \x1b]0;title\x07\x1b[2J\r\x9b1m\b\x7f\x00 b\tc\nd \udc80"


@pytest.mark.parametrize("markup", [True, False])
def test_on_a_terminal_markup_is_text_and_control_characters_are_visible(markup):
    out = shown(HOSTILE, ("[x]", "cyan"), terminal=True, markup=markup, highlight=False)
    assert "[/INST] [bold]a[/] :smile: \\x1b]0;title\\x07\\x1b[2J\\r\\x9b1m\\x08\\x7f\\x00 b" in out
    assert "\nd \\udc80" in out
    assert out.endswith("\x1b[36m[x]\x1b[0m\n")
    # The style is the only sequence sent.
    assert out.count("\x1b") == 2


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
