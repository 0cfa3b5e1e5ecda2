"""Long, empty and foreign texts, and a page that can be used while it writes."""

import pytest

from tests.browser.interface import (
    WRITTEN,
    look_at,
    set_value,
    text_of_tokens,
    wait_until_ready,
    write,
)

pytestmark = pytest.mark.browser


@pytest.mark.both
def test_a_prompt_of_100_000_characters(open_page, gpt):
    tab = open_page(gpt.page)
    prompt = ("Ana sat on the hill 東京都. " * 5_000)[:100_000]
    delay = longest_delay(tab, lambda: write(tab, prompt, length=20))
    (sample,) = gpt.portable().samples(prompt, 20, temperature=0.9, top_k=0, seed=5, stop=["hill"])
    assert text_of_tokens(tab).startswith(sample.text)
    look_at(tab, 0)
    assert tab.text("#alert") == ""
    # Setting the value of the field and showing it takes longer than writing.
    assert delay < 2_000


def longest_delay(tab, work) -> float:
    """Returns how late a timer of the page was at most while something was done, in milliseconds."""
    tab.evaluate(
        """() => {
          let last = performance.now();
          globalThis.delay = 0;
          globalThis.timer = setInterval(() => {
            delay = Math.max(delay, performance.now() - last - 20);
            last = performance.now();
          }, 20);
        }"""
    )
    work()
    return tab.evaluate("() => { clearInterval(timer); return delay; }")


def test_writing_can_be_stopped(open_page, gpt, tmp_path):
    tab = open_page(gpt.page)
    wait_until_ready(tab)
    set_value(tab, "length", 10_000)
    set_value(tab, "prompt", "Ana")

    def stop_before_the_end() -> None:
        """With another seed where the stop string "hill" came first."""
        for seed in range(10):
            set_value(tab, "seed", seed)
            start_and_stop(tab)
            if "Stopped" in tab.text("#status"):
                return

    delay = longest_delay(tab, stop_before_the_end)
    assert (
        0
        < len(
            tab.evaluate(
                "() => Array.from(document.querySelectorAll('#text-tokens .token'), (t) => 0)"
            )
        )
        < 10_000
    )
    assert "Stopped" in tab.text("#status")
    assert delay < 1_000
    # What there is can be continued.
    before = text_of_tokens(tab)
    set_value(tab, "length", 5)
    tab.evaluate("() => document.getElementById('continue').click()")
    tab.wait_for("() => document.getElementById('stop').hidden")
    assert text_of_tokens(tab).startswith(before)


def start_and_stop(tab) -> None:
    tab.evaluate("() => document.getElementById('start').click()")
    tab.wait_for("() => document.querySelectorAll('#text-tokens .token').length > 20")
    tab.evaluate("() => document.getElementById('stop').click()")
    tab.wait_for("() => document.getElementById('stop').hidden")


def test_settings_that_cannot_be_used(open_page, gpt):
    tab = open_page(gpt.page)
    tab.wait_for(WRITTEN)
    opening = text_of_tokens(tab)
    for name, value in (("temperature", -1), ("top-p", 2), ("length", ""), ("seed", 1.5)):
        usual = tab.evaluate("(name) => document.getElementById(name).value", name)
        set_value(tab, name, value)
        tab.evaluate("() => document.getElementById('write-form').requestSubmit()")
        assert tab.evaluate("(name) => document.getElementById(name).ariaInvalid", name) == "true"
        assert tab.text("#alert")
        set_value(tab, name, usual)
    assert text_of_tokens(tab) == opening
    # A field that is not seen is shown.
    assert tab.evaluate("() => document.activeElement.id") == "seed"


def test_a_damaged_page_says_so(open_page, gpt, tmp_path):
    """A model that is cut off: one line, and no error that nothing catches."""
    content = gpt.page.read_text(encoding="utf-8")
    start = content.index(">", content.index('class="model"')) + 1
    end = content.index("<", start)
    page = tmp_path / "damaged.html"
    page.write_text(
        content[:start] + content[start : end - 4_000] + content[end:], encoding="utf-8"
    )
    tab = open_page(page)
    message = tab.evaluate("() => minigpt.ready.then(() => null, (error) => error.message)")
    assert "damaged" in message
    tab.wait_for(
        "(message) => document.getElementById('alert').textContent.includes(message)", message
    )
    assert tab.messages == []
