"""What each part of the model changes: squares, arcs, and parts that are switched off."""

import re

import numpy as np
import pytest

from tests.browser.interface import WRITTEN, look_at, text_of_tokens, write
from tests.targets.gguf.looking import Inspector

pytestmark = pytest.mark.browser

NAMES = "() => Array.from(document.querySelectorAll('.part-button'), (button) => button.ariaLabel)"
SHOWN = "() => Array.from(document.querySelectorAll('.part-button'), (button) => button.innerText)"
SHADES = """() => Array.from(document.querySelectorAll(".attention .shade"), (shade) =>
  Number(shade.style.getPropertyValue("--weight")))"""
ARCS = """() => Array.from(document.querySelectorAll(".attention .arcs path"), (arc) =>
  Number(arc.style.getPropertyValue("--weight")))"""
# "Layer 1, head 2: ...; without it, the token has 1.2% in place of 3.4%"
WITHOUT = re.compile(r"; without it, the token has (.*)% in place of (.*)%$")
LEFT_OUT = "() => document.getElementById('left-out').checkVisibility()"


@pytest.fixture
def inside(open_page, gpt):
    """The page, which looks inside of the fourth token; what was read before it, and its id."""
    tab = open_page(gpt.page)
    write(tab, "Ana sat", seed=7, length=12)
    options = {"prompt": "Ana sat", "seed": 7, "maxNewTokens": 12}
    tokens = tab.evaluate("async (options) => (await minigpt.generate(options)).tokens", options)
    look_at(tab, 3)
    return tab, [*gpt.built.tokenizer.encode("Ana sat").tolist(), *tokens[:3]], tokens[3]


def inspector(gpt) -> Inspector:
    gpt.portable()
    return Inspector(gpt.page.with_suffix(".gguf"))


def test_squares_show_what_each_part_changes(inside, gpt):
    tab, read, chosen = inside
    oracle = inspector(gpt)

    def probability(heads=(), layers=()) -> float:
        oracle.leave_out(heads, layers)
        oracle.open(read)
        return oracle.inspect(len(read) - 1, chosen).lens[-1].chosen

    whole, expected = probability(), []
    for layer in range(oracle.layers):
        expected.append(probability(layers=[layer]))
        expected += [probability([layer * oracle.heads + head]) for head in range(oracle.heads)]
    found = [WITHOUT.search(name).groups() for name in tab.evaluate(NAMES)]
    assert [float(before) / 100 for _, before in found] == pytest.approx(
        [whole] * len(expected), rel=0.06, abs=1e-4
    )
    assert [float(after) / 100 for after, _ in found] == pytest.approx(expected, rel=0.06, abs=1e-4)
    assert len(set(expected)) == len(expected)
    # The largest change has the strongest color, and its side is seen.
    changes = np.array(expected) - whole
    raises = tab.evaluate(
        "() => Array.from(document.querySelectorAll('.part-button'), (b) => b.classList.contains('raises'))"
    )
    assert raises == (changes > 0).tolist()
    weights = tab.evaluate(
        """() => Array.from(document.querySelectorAll(".part-button"), (button) =>
          Number(button.style.getPropertyValue("--weight")))"""
    )
    scale = max(abs(changes).max(), 1e-4)
    assert weights == pytest.approx((abs(changes) / scale).tolist(), abs=2e-3)


def test_arcs_lead_to_what_a_head_attends_to(inside, gpt):
    """Their width and the shades are linear: a weight divided by the largest one."""
    tab, read, chosen = inside
    oracle = inspector(gpt)
    oracle.open(read)
    attention = oracle.inspect(len(read) - 1, chosen).attention
    assert tab.evaluate(ARCS) == []
    assert tab.evaluate(SHADES)[:-1] == pytest.approx(scaled(attention.mean((0, 1))), abs=2e-3)
    # The first button of a layer is the layer itself.
    point = """(number) => document.querySelectorAll(".part-button")[number]
      .dispatchEvent(new PointerEvent("pointerenter"))"""
    tab.evaluate(point, 2)
    expected = scaled(attention[0, 1])
    assert tab.evaluate(SHADES)[:-1] == pytest.approx(expected, abs=2e-3)
    seen = [weight for weight in expected if weight >= 0.04]
    assert tab.evaluate(ARCS) == pytest.approx(seen, abs=2e-3)
    note = tab.evaluate(
        "() => document.querySelector('.attention .shaded').previousSibling.textContent"
    )
    assert note.startswith("Shades show the attention of layer 1, head 2, from 0 to ")
    # They end where the pointer leaves, unless the head is chosen.
    leave = (
        """() => document.querySelector(".parts").dispatchEvent(new PointerEvent("pointerleave"))"""
    )
    tab.evaluate(leave)
    assert tab.evaluate(ARCS) == []
    tab.click(".part-button:nth-of-type(3)")
    tab.evaluate(leave)
    assert tab.evaluate(ARCS) == pytest.approx(seen, abs=2e-3)


def scaled(weights: np.ndarray) -> list[float]:
    return (weights / weights.max()).tolist()


def test_what_is_switched_off_stays_off(inside, open_page):
    """While writing, and in a link."""
    tab, *_ = inside
    whole = text_of_tokens(tab)
    tab.click(".part-button:nth-of-type(3)")
    switch = "() => document.querySelector('.part-head button').click()"
    tab.evaluate(switch)
    tab.wait_for(f"() => ({SHOWN})()[2] === 'off'")
    state = "() => document.getElementById('inside-state').textContent"
    tab.wait_for(f"() => ({state})().includes('With what is switched off, it has ')")
    layer = "document.querySelector('.part-button[aria-label^=\"Layer 2: \"]')"
    tab.evaluate(f"() => {layer}.click()")
    tab.evaluate(switch)
    tab.wait_for(f"() => {layer}.textContent === 'off'")
    written = write(tab, "Ana sat")
    options = {"seed": 7, "maxNewTokens": 12, "withoutHeads": [[0, 1]], "withoutLayers": [1]}
    assert written.startswith(tab.generate("Ana sat", **options)["text"]) and written != whole
    note = "() => document.getElementById('left-out').textContent"
    assert (
        tab.evaluate(note)
        == "From now on, texts are written without layer 2; layer 1, head 2. Switch all on"
    )
    address = tab.evaluate("() => location.href")
    assert address.endswith("&off=2%2C1.2")
    other = open_page(address)
    other.wait_for(WRITTEN)
    assert text_of_tokens(other) == written
    assert other.evaluate(note) == tab.evaluate(note)
    other.evaluate("() => document.querySelector('#left-out button').click()")
    assert not other.evaluate(LEFT_OUT)
    assert write(other, "Ana sat") == whole
    assert "off=" not in other.evaluate("() => location.href")
