"""Names and roles in the report (axe-core), its widths, and the keyboard."""

import pytest

from tests.browser.accessibility import overflow, violations
from tests.browser.reports import OPEN_ALL, drawn, texts_of
from tests.browser.test_keyboard import OPERABLE

pytestmark = pytest.mark.browser

LOOKS = [
    ("usual", 360, True),
    ("comparison", 1280, False),
]


@pytest.mark.parametrize(("name", "width", "dark"), LOOKS)
def test_axe_finds_nothing(name, width, dark, reports, open_page, axe):
    tab = drawn(open_page(reports[name], width=width, dark=dark))
    assert tab.evaluate("() => innerWidth") == width
    tab.evaluate(OPEN_ALL)
    if name == "usual" and dark:
        tab.click("#samples-mode-all")
    assert overflow(tab) == []
    assert violations(tab, axe) == []
    assert texts_of(tab, ".alert") == [] and tab.messages == []


def test_everything_is_reached_by_tab(usual):
    tab = usual
    tab.evaluate(OPEN_ALL)
    count = len(tab.evaluate(OPERABLE))
    # Of several radio buttons with one name, Tab reaches the one that is chosen.
    radios = "() => document.querySelectorAll('[type=radio]:not(:checked)').length"
    expected = count - tab.evaluate(radios)
    tab.evaluate("() => document.querySelector('[data-number=\"0\"]').focus()")
    reached = {0}
    for _ in range(expected):
        tab.press("Tab")
        number, outlined = tab.evaluate(
            """() => {
              const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
              const outlined = outlineStyle !== "none" && parseFloat(outlineWidth) > 0;
              return [Number(document.activeElement.dataset.number ?? -1), outlined];
            }"""
        )
        reached.add(number)
        assert number == -1 or outlined
    assert len(reached - {-1}) == expected > 20
