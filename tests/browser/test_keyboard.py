"""The page with the keyboard alone."""

import pytest

from tests.browser.interface import WRITTEN

pytestmark = pytest.mark.browser

FOCUSED = """() => {
  const { localName, id, className, textContent } = document.activeElement;
  const classes = document.activeElement.closest("#prompt-tokens") ? "" : String(className);
  return { name: localName, id, classes, text: textContent.slice(0, 40) };
}"""
# Every element that a click does something on, in its order, and that can be seen. Alternatives change
# with the token that Tab reaches.
OPERABLE = """() => {
  const names = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  return Array.from(document.querySelectorAll(names))
    .filter((e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0 && !e.closest("#alternatives"))
    .map((e, number) => { e.dataset.number = number; return number; });
}"""


def focus(tab) -> dict:
    return tab.evaluate(FOCUSED)


def tab_to(tab, condition, most: int = 60) -> dict:
    """Presses Tab until a condition on the focused element is met."""
    for _ in range(most):
        found = focus(tab)
        if condition(found):
            return found
        tab.press("Tab")
    raise AssertionError(f"not reached by {most} tabs")


@pytest.fixture
def written(open_page, gpt):
    """The page after writing by Ctrl+Enter; the focus is in the prompt."""
    tab = open_page(gpt.page)
    tab.wait_for(WRITTEN)
    tab_to(tab, lambda found: found["id"] == "prompt")
    tab.press("Control+a")
    # Not the prompt of the opening, for which Write would draw a new seed.
    tab.type("Ana sat on")
    tab.press("Control+Enter")
    tab.wait_for(
        "() => document.getElementById('stop').hidden && document.querySelector('#text-tokens .token')"
    )
    return tab


def to_tokens(tab) -> dict:
    return tab_to(tab, lambda found: "token" in found["classes"].split())


@pytest.mark.both
def test_everything_is_reached_by_tab(written):
    to_tokens(written)
    written.press("Enter")
    written.open_parts()
    operable = written.evaluate(OPERABLE)
    # Beyond the last one are the buttons of the browser itself.
    written.evaluate("() => document.querySelector('[data-number=\"0\"]').focus()")
    reached, alternatives = {0}, 0
    for _ in range(len(operable) + 15):
        written.press("Tab")
        alternatives += written.evaluate(
            "() => document.activeElement.matches('#alternatives button')"
        )
        reached.add(written.evaluate("() => Number(document.activeElement.dataset.number ?? -1)"))
    assert len(operable) > 15 and alternatives > 5
    missing = written.evaluate(
        """(numbers) => numbers.map((number) =>
          document.querySelector(`[data-number='${number}']`).outerHTML.slice(0, 200))""",
        sorted(set(operable) - reached),
    )
    assert missing == []


def test_arrow_keys_move_over_the_tokens(written):
    to_tokens(written)
    position = """() =>
      Array.from(document.querySelectorAll("#text-tokens .token")).indexOf(document.activeElement)"""
    start = written.evaluate(position)
    written.press("ArrowRight", 3)
    assert written.evaluate(position) == start + 3
    written.press("ArrowLeft")
    assert written.evaluate(position) == start + 2
    # The panel follows.
    heading = written.text("#panel-heading")
    assert heading == f"Token {start + 3}"
    written.press("End")
    count = written.evaluate("() => document.querySelectorAll('#text-tokens .token').length")
    assert written.evaluate(position) == count - 1
    written.press("ArrowRight")
    assert written.evaluate(position) == count - 1
    written.press("Home")
    written.press("ArrowLeft")
    assert written.evaluate(position) == 0
    # One stop of Tab for all of them.
    written.press("Tab")
    assert "token" not in focus(written)["classes"].split()
