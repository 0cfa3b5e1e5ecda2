"""Memorization on the page of a model."""

import json

import pytest

from tests.browser.accessibility import overflow, violations
from tests.browser.interface import wait_until_ready
from tests.browser.runs import write_page, write_run
from tests.browser.test_security import HOSTILE, MARKUP
from tests.insight.report.report_runs import memorization_of

pytestmark = pytest.mark.browser


def test_copied_passages_are_underlined(gpt, tmp_path, open_page, axe):
    run = write_run(tmp_path / "copied", gpt.built)
    measured = memorization_of(2)
    # The second sample is hostile, and its offsets are those of a text with characters of two units.
    text = f"\U0001f98a {HOSTILE}"
    sample = {"prompt": HOSTILE, "text": text, "copied": [[2, 11]]}
    measured["samples"].append(sample)
    (run.path / "analysis.json").write_text(json.dumps({"memorization": {"best": measured}}))
    tab = open_page(write_page(run), width=360)
    wait_until_ready(tab)
    tab.open_parts()
    about = tab.text("#about")
    assert "3.1% of the tokens; in held-out text of equal length, 0.21%" in about
    marks = (
        """() => Array.from(document.querySelectorAll("mark.copied"), (mark) => mark.textContent)"""
    )
    assert tab.evaluate(marks) == ["[copied: the old fox]", f"[copied: {MARKUP[:9]}]"]
    assert tab.evaluate("() => window.hacked ?? null") is None
    assert overflow(tab) == [] and violations(tab, axe) == [] and tab.messages == []
