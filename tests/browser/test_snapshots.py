"""The states of training in a page: what they write, and when they learned each token."""

import gzip

import pytest

import minigpt
from tests.browser.interface import set_value, wait_until_ready
from tests.browser.runs import write_page, write_run
from tests.targets.gguf.models import GPT_SHAPES, build
from tests.targets.html.test_model_page import Page

pytestmark = pytest.mark.browser

STATUS = "() => document.querySelector('#replay [role=status]').textContent"
TEXT = "() => document.querySelector('#replay .text span:nth-child(2)').textContent"


@pytest.fixture(scope="module")
def states(gpt, tmp_path_factory):
    """The models of the three states of the page of `gpt`, the last of which is the model itself."""
    folder, models = tmp_path_factory.mktemp("states"), []
    files = Page(gpt.page).files("model")
    for name in ("0", "1"):
        path = folder / f"{name}.gguf"
        path.write_bytes(gzip.decompress(files[name]))
        models.append(minigpt.load_portable(path))
    return [*models, gpt.portable()]


@pytest.mark.both
def test_every_state_writes_as_its_file(open_page, gpt, states):
    tab = open_page(gpt.page)
    wait_until_ready(tab)
    set_value(tab, "prompt", "Béla sat")
    assert tab.evaluate("() => document.getElementById('snapshot').max") == "2"
    written = []
    # From one state to another and back: those of before are shown again.
    for index in (0, 1, 2, 1, 0):
        (expected,) = states[index].generate(
            "Béla sat", 30, temperature=0.9, top_k=0, seed=5, stop=["hill"]
        )
        set_value(tab, "snapshot", index)
        tab.wait_for(f"(start) => ({STATUS})().startsWith(start)", f"Step {20 * (index + 1)}")
        tab.wait_for(f"(text) => ({TEXT})() === text", expected)
        written.append(expected)
        found = tab.generate("Béla sat", seed=5, snapshot=index)
        assert found["text"] == expected
    assert len(set(written)) == 3
    changed = tab.evaluate("() => document.querySelectorAll('#replay ins').length")
    assert changed > 0
    tab.click("#learned")
    tab.wait_for("() => document.querySelectorAll('.learned [data-step]').length > 5")
    # The first tokens are before the context.
    tab.evaluate("() => [...document.querySelectorAll('.learned [data-step]')].at(-1).focus()")
    token = tab.text(".learned-token")
    assert "By step: 20: " in token and ", 60: " in token


def test_the_state_that_learned_a_token(open_page, tmp_path):
    """A model whose weights are so large that it is sure of most tokens."""
    run = write_run(
        tmp_path / "sure",
        build(GPT_SHAPES["modern"], "character", spread=0.7),
        epochs=3,
        kept_epochs=3,
    )
    tab = open_page(write_page(run))
    learned, limits = [], []
    for snapshot in range(3):
        options = {"prompt": "Ana", "temperature": 0, "snapshot": snapshot, "maxNewTokens": 20}
        written = tab.evaluate("(options) => minigpt.generate(options)", options)
        text = "Ana" + written["text"]
        for token in tab.evaluate("(text) => minigpt.learningDates(text)", text):
            if None not in token["probabilities"]:
                high = [p > 0.5 for p in token["probabilities"]]
                learned.append(token["step"])
                limits.append(max(token["probabilities"]))
                assert token["step"] == ([20, 40, 60][high.index(True)] if any(high) else None)
    assert {None, 20, 40, 60} == set(learned)
    # Other limits than one half would give other states.
    assert any(0.3 < limit < 0.5 for limit in limits) and any(0.5 < limit < 0.7 for limit in limits)
