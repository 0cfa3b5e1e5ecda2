"""Two texts side by side: from one seed, at two temperatures or by two states of training."""

import pytest

from tests.browser.accessibility import overflow, violations
from tests.browser.interface import set_value, wait_until_ready

pytestmark = pytest.mark.browser

TEXTS = """() => Array.from(document.querySelectorAll("#compare .text"), (text) =>
  Array.from(text.querySelectorAll(".token"), (token) => token.textContent).join(""))"""
STATUS = "() => document.querySelector('#compare .status').textContent"
SET = """(side, kind, value) => {
  const field = document.querySelectorAll("#compare [role=group]")[side].querySelector(kind);
  field.value = String(value);
}"""


def compare(tab) -> list[str]:
    tab.click("#compare .primary")
    tab.wait_for(f"() => /the same\\.$/.test(({STATUS})())")
    return tab.evaluate(TEXTS)


@pytest.fixture
def opened(open_page, gpt):
    tab = open_page(gpt.page)
    wait_until_ready(tab)
    set_value(tab, "prompt", "Béla sat")
    set_value(tab, "seed", 7)
    tab.wait_for("() => !document.getElementById('compare').hidden")
    tab.evaluate("() => { document.getElementById('more').open = true; }")
    return tab


def test_two_temperatures(opened, axe):
    texts = compare(opened)
    for text, temperature in zip(texts, (0.3, 1.2), strict=True):
        found = opened.generate("Béla sat", seed=7, temperature=temperature)["text"]
        assert text.startswith(found)
    assert texts[0] != texts[1]
    assert violations(opened, axe) == [] and overflow(opened) == []
    opened.evaluate(SET, 1, "input", 0.3)
    first, second = compare(opened)
    assert first == second == texts[0]
    assert opened.evaluate(STATUS) == "The texts are the same."
