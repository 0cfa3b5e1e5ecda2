"""The states of training in a page: what they write, and when they learned each token."""

import gzip

import pytest

import minigpt
from minigpt.runs.records import append_lines
from minigpt.targets.gguf.run_file import write_run_file
from tests.browser import runs
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
    is_explained = "() => document.querySelector('#replay .legend').checkVisibility()"
    assert not tab.evaluate(is_explained)
    tab.click("#learned")
    tab.wait_for("() => document.querySelectorAll('.learned [data-step]').length > 5")
    assert tab.evaluate(is_explained)
    # The first tokens are before the context.
    tab.evaluate("() => [...document.querySelectorAll('.learned [data-step]')].at(-1).focus()")
    token = tab.text(".learned-token")
    assert "By step: 20: " in token and ", 60: " in token
    # The legend has the color of each state.
    colors = """() => Object.fromEntries(Array.from(document.querySelectorAll("SELECTOR"), (node) =>
      [node.dataset.step, getComputedStyle(node).backgroundColor]))"""
    legend = tab.evaluate(colors.replace("SELECTOR", "#replay .legend .swatch"))
    assert list(legend) == ["20", "40", "60", ""] and len(set(legend.values())) == 4
    assert (
        tab.evaluate(colors.replace("SELECTOR", ".learned [data-step]")).items() <= legend.items()
    )


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


@pytest.mark.parametrize("width", [1280, 390])
def test_the_training_curve(width, open_page, gpt, tmp_path, monkeypatch):
    """It begins with the model before its training, and no label is cut off or on another one."""
    monkeypatch.setattr(runs, "STEPS_PER_EPOCH", 1100)
    run = write_run(tmp_path / "steps", gpt.built)
    run.snapshots_folder.mkdir()
    for step in (0, 1, 3, 1600, 2100):
        file = run.snapshots_folder / f"step-{step:08}.gguf"
        write_run_file(run, file, "int8", gpt.built.weights, {"step": step})
    line = {"epoch": 1, "seconds": 1.0}
    losses = [(1, 5.0), (2, 4.5), (1100, 3.0), (2200, 2.0)]
    lines = [{**line, "step": n, "batches": n, "mean_loss": loss} for n, loss in losses]
    append_lines(run.steps_file, lines)
    tab = open_page(write_page(run), width=width)
    tab.wait_for("() => document.querySelector('.snapshot-curve circle') !== null")
    assert (
        tab.evaluate("() => document.getElementById('snapshot').getAttribute('aria-valuetext')")
        == "step 0"
    )
    first, *_ = tab.evaluate(
        """() => Array.from(document.querySelectorAll(".snapshot-curve circle"), (circle) =>
          ["cx", "cy"].map((name) => Number(circle.getAttribute(name)).toFixed(1)).join())"""
    )
    points = "() => document.querySelector('.snapshot-curve polyline').getAttribute('points')"
    assert tab.evaluate(points).split()[0] == first
    for chart in (".snapshot-curve svg", ".chart"):
        problems, labels = tab.evaluate(
            """(chart) => {
              const svg = document.querySelector(chart), box = svg.getBoundingClientRect();
              const texts = Array.from(svg.querySelectorAll("text"), (text) =>
                [text.textContent, text.getBoundingClientRect()]);
              const isCut = ([, { left, right }]) => left < box.left || right > box.right;
              const isOn = (a, b) => Math.max(a.left, b.left) < Math.min(a.right, b.right) &&
                Math.max(a.top, b.top) < Math.min(a.bottom, b.bottom);
              const isCovered = ([, a], at) => texts.slice(at + 1).some(([, b]) => isOn(a, b));
              return [texts.filter(isCut).concat(texts.filter(isCovered)), texts.map(([label]) => label)];
            }""",
            chart,
        )
        assert problems == []
        assert chart == ".chart" or {"0", "2,200"} <= set(labels)
