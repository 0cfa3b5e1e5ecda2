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


# Of each level of probability: the thickness of the line in pixels, and colors.


# What is chosen, and what is not.
CHOSEN = [
    [".part-button[aria-pressed=true]", ".part-button[aria-pressed=false]"],
    [".branch[aria-current]", ".branch:not([aria-current])"],
]
STYLES = """(selectors) => selectors.map((selector) => {
  const style = getComputedStyle(document.querySelector(selector));
  return [style.borderBottomColor, style.borderBottomWidth, style.backgroundColor, style.color];
})"""


def test_colors_of_the_system(chromium, gpt):
    """Forced colors: what is chosen can be told apart, bars can be seen, and lines stand for shades."""
    tab = chromium.open(gpt.page)
    tab.page.emulate_media(forced_colors="active")
    write(tab, "Ana sat", seed=1)
    write(tab, "Ana sat", seed=2)
    look_at(tab, 3)
    tab.click(".part-button:nth-of-type(2)")
    for selectors in CHOSEN:
        chosen, other = tab.evaluate(STYLES, selectors)
        assert chosen[:2] != other[:2], selectors
    token, body = tab.evaluate(STYLES, ["#text-tokens .token", "body"])
    assert token[3] == body[3]
    thickest = """() => Math.max(...Array.from(document.querySelectorAll(".shade .fill"), (fill) =>
      parseFloat(getComputedStyle(fill).borderBottomWidth)))"""
    assert tab.evaluate(thickest) == 5
    bars = [".alternative.chosen .bars", ".alternative:not(.chosen) .bars"]
    solid = STYLES.replace("selector))", 'selector), "::after")')
    chosen, other = (style[2] for style in tab.evaluate(solid, bars))
    assert len({chosen, other, tab.evaluate(STYLES, [".panel"])[0][2]}) == 3
    tab.close()


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
