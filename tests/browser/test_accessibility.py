"""Names and roles (axe-core), light and dark, wide and narrow; nothing to scroll sideways."""

import pytest

from tests.browser.accessibility import overflow, violations
from tests.browser.interface import look_at, use_everything, wait_until_ready, write

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("kind", "width", "dark"), [("gpt", 1280, False), ("gpt", 360, True), ("pairs", 360, False)]
)
def test_axe_finds_nothing(kind, width, dark, open_page, request, axe):
    exported = request.getfixturevalue(kind)
    tab = open_page(exported.page, width=width, dark=dark)
    assert tab.evaluate("() => innerWidth") == width
    assert tab.evaluate("() => matchMedia('(prefers-color-scheme: dark)').matches") == dark
    wait_until_ready(tab)
    assert violations(tab, axe) == []
    assert overflow(tab) == []
    use_everything(tab, "Ana sat on the hill")
    assert violations(tab, axe) == []
    assert overflow(tab) == []
    assert tab.messages == []


def test_pictures_have_a_name(open_page, gpt, pairs):
    """Squares of parts are buttons with a name; the logit lens and the alignment are pictures."""
    tab = open_page(gpt.page)
    use_everything(tab, "Ana sat")
    look_at(tab, 4)
    name = "() => document.querySelector('.lens-picture').getAttribute('aria-label')"
    assert tab.evaluate(name).startswith("Probability of the chosen token by layer: ")
    names = tab.evaluate(
        "() => Array.from(document.querySelectorAll('.part-button'), (b) => b.ariaLabel)"
    )
    assert len(set(names)) == len(names) > 4 and all(names)
    tab = open_page(pairs.page)
    write(tab, "Béla sat")
    tab.wait_for("() => !document.getElementById('alignment').hidden")
    painted = tab.evaluate(
        """() => {
          const canvas = document.querySelector("#alignment canvas"), { width, height } = canvas;
          const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
          return [canvas.ariaLabel, pixels.some((value) => value > 0)];
        }"""
    )
    assert all(painted)
