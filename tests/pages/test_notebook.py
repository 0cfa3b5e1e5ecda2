"""Pages and messages in notebooks. tests/test_examples.py runs notebooks."""

import html
import io
import re

import pytest
from rich.console import Console

import minigpt
from minigpt.training.console import show


def test_an_inlined_page_is_the_file_in_a_sandbox(tmp_path):
    document = "<!doctype html>\n<p title=\"a 'b' & c\">&lt;é</p>\n"
    (tmp_path / "page.html").write_text(document, encoding="utf-8")
    shown = minigpt.InlinePage(tmp_path / "page.html", height=300)._repr_html_()
    frame = re.fullmatch(
        r'<iframe srcdoc="([^"]*)" sandbox="([^"]*)" style="([^"]*)"></iframe>', shown
    )
    assert html.unescape(frame[1]) == document
    assert "allow-same-origin" not in frame[2] and "height: 300px" in frame[3]


def test_a_file_that_is_no_page(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF\xff\xfe")
    for name in ("model.gguf", "missing.html"):
        with pytest.raises(minigpt.UserError, match=f"{name}: cannot be read as a page"):
            minigpt.InlinePage(tmp_path / name)


def test_messages_in_a_notebook_are_text_that_it_can_wrap():
    file = io.StringIO()
    show(Console(file=file, force_jupyter=True), "a " * 100, ("b", "bold"), "\x1b[2J")
    assert file.getvalue() == "a " * 100 + "\x1b[1mb\x1b[0m\\x1b[2J\n"
