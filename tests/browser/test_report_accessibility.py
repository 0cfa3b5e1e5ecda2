"""Names and roles in the report (axe-core), its widths, and the keyboard."""

import pytest

from tests.browser.accessibility import overflow, violations
from tests.browser.reports import drawn, texts_of

pytestmark = pytest.mark.browser

LOOKS = [
    ("usual", 360, True),
    ("comparison", 1280, False),
]


@pytest.mark.parametrize(("name", "width", "dark"), LOOKS)
def test_axe_finds_nothing(name, width, dark, reports, open_page, axe):
    tab = drawn(open_page(reports[name], width=width, dark=dark))
    assert tab.evaluate("() => innerWidth") == width
    tab.open_parts()
    if name == "usual" and dark:
        tab.click("#samples-mode-all")
    assert overflow(tab) == []
    assert violations(tab, axe) == []
    assert texts_of(tab, ".alert") == [] and tab.messages == []
