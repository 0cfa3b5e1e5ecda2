"""The states of training in a page: what they write, and when they learned each token."""

import gzip

import numpy as np
import pytest

import minigpt
from tests.browser.interface import set_value, wait_until_ready
from tests.browser.runs import write_page, write_run
from tests.targets.gguf.models import GPT_SHAPES, build
from tests.targets.html.test_writing import Page

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
    token = tab.evaluate("() => document.querySelector('.learned-token').textContent")
    assert "By step: 20: " in token and ", 60: " in token


def test_learning_dates(open_page, gpt, states):
    """The probabilities are the softmax of the logits of each state's file."""
    tab = open_page(gpt.page)
    text = "Ana sat on the hill by"
    found = tab.evaluate("(text) => minigpt.learningDates(text)", text)
    assert "".join(token["token"] for token in found) == text
    tokenizer = states[2].tokenizer
    ids = np.array(tokenizer.encode(text))
    assert len(ids) == len(found) > 3
    for index, state in enumerate(states):
        (logits,) = state.logits([[tokenizer.end_id, *ids[:-1]]])
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        expected = (odds / odds.sum(axis=1, keepdims=True))[np.arange(len(ids)), ids]
        np.testing.assert_allclose([t["probabilities"][index] for t in found], expected, rtol=1e-4)
    assert {token["step"] for token in found} == {None}
    assert tab.evaluate("() => minigpt.learningDates('')") == []


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


def test_a_text_longer_than_the_context(open_page, gpt):
    tab, model = open_page(gpt.page), gpt.portable()
    text = "Ana sat on the hill. " * 20
    count = len(model.tokenizer.encode(text))
    found = tab.evaluate("(text) => minigpt.learningDates(text)", text)
    # The first token of the context is read, not predicted.
    before = count - model.max_len + 1
    assert len(found) == count and before > 0
    assert found[before - 1]["probabilities"] == [None, None, None]
    assert None not in found[before]["probabilities"]


@pytest.mark.parametrize("snapshot", [3, -1, 0.5, "0"])
def test_a_state_that_does_not_exist(open_page, gpt, snapshot):
    tab = open_page(gpt.page)
    message = tab.evaluate(
        "(snapshot) => minigpt.generate({ snapshot }).catch((error) => String(error))", snapshot
    )
    assert message == (
        f"RangeError: snapshot: {snapshot}: should be an index into snapshots, of which there are 3"
    )


def test_a_page_without_states_has_no_slider(open_page, pairs):
    tab = open_page(pairs.page)
    wait_until_ready(tab)
    assert tab.evaluate("() => document.getElementById('training').hidden")
    assert tab.evaluate("() => minigpt.snapshots.length") == 1


def test_play(open_page, gpt):
    """All states, one after the other, by one button."""
    tab = open_page(gpt.page)
    wait_until_ready(tab)
    tab.click("#replay .primary")
    tab.wait_for(f"() => ({STATUS})().startsWith('Step 60')")
    tab.wait_for(
        "() => document.querySelector('#replay .primary').textContent === 'Play the training'"
    )
    assert tab.evaluate("() => document.getElementById('snapshot').value") == "2"


def test_heads_and_layers_that_are_left_out(open_page, gpt):
    tab = open_page(gpt.page)
    whole = tab.generate("Ana sat", seed=5)
    without = {
        str(options): tab.generate("Ana sat", seed=5, **options)["text"]
        for options in (
            {"withoutHeads": [[0, 0], [0, 1]]},
            {"withoutHeads": [[1, 0]]},
            {"withoutLayers": [1]},
        )
    }
    assert len({whole["text"], *without.values()}) == 4
    assert tab.generate("Ana sat", seed=5, withoutHeads=[], withoutLayers=[]) == whole
    for options, message in (
        ({"withoutHeads": [[9, 0]]}, "withoutHeads: [[9,0]]: should be pairs from [0, 0] to [1, "),
        ({"withoutHeads": 5}, "withoutHeads: 5: should be pairs from [0, 0] to [1, "),
        ({"withoutLayers": [2]}, "withoutLayers: [2]: should be numbers from 0 to 1"),
    ):
        script = "(options) => minigpt.generate(options).catch((error) => String(error))"
        assert tab.evaluate(script, options).startswith(f"RangeError: {message}")
