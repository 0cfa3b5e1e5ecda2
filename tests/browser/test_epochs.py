"""Replay: the text of an epoch is that of the epoch's file."""

import pytest

import minigpt
from tests.browser.interface import set_value, wait_until_ready

pytestmark = pytest.mark.browser

STATUS = "() => document.querySelector('#replay [role=status]').textContent"
TEXT = "() => document.querySelector('#replay .text span:last-child').textContent"


def test_every_epoch_writes_as_its_file(open_page, gpt):
    tab = open_page(gpt.page)
    wait_until_ready(tab)
    set_value(tab, "prompt", "Béla sat")
    assert tab.evaluate("() => document.getElementById('epoch').max") == "2"
    written = []
    # From one epoch to another and back: those of before are shown again.
    for index in (0, 1, 2, 1, 0):
        file = gpt.run.epoch_files()[index]
        # The model of the page is that of the best epoch, the last one; its weights are not rounded.
        model = gpt.portable() if index == 2 else minigpt.load_portable(file)
        (expected,) = model.generate(
            "Béla sat", 30, temperature=0.9, top_k=0, seed=5, stop=["hill"]
        )
        set_value(tab, "epoch", index)
        tab.wait_for(f"(start) => ({STATUS})().startsWith(start)", f"Epoch {index + 1}")
        tab.wait_for(f"(text) => ({TEXT})() === text", expected)
        written.append(expected)
    assert len(set(written)) == 3
    changed = tab.evaluate("() => document.querySelectorAll('#replay ins').length")
    assert changed > 0


def test_a_page_without_epochs_has_no_slider(open_page, pairs):
    tab = open_page(pairs.page)
    wait_until_ready(tab)
    assert tab.evaluate("() => document.getElementById('epochs').hidden")
    assert tab.evaluate("() => minigpt.info.epochs") == []


def test_play(open_page, gpt):
    """All epochs, one after the other, by one button."""
    tab = open_page(gpt.page)
    wait_until_ready(tab)
    tab.click("#replay .primary")
    tab.wait_for(f"() => ({STATUS})().startsWith('Epoch 3')")
    tab.wait_for(
        "() => document.querySelector('#replay .primary').textContent === 'Play all epochs'"
    )
    assert tab.evaluate("() => document.getElementById('epoch').value") == "2"
