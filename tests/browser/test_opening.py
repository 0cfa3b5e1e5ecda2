"""What a reader finds when the page is opened: what it contains, and the text of a link."""

import json
from pathlib import Path

import pytest

from minigpt.runs.records import append_lines
from minigpt.runs.run import Run
from minigpt.targets.html import file_page
from minigpt.targets.html.model_page import write_page as write_page_with
from tests.browser.accessibility import overflow
from tests.browser.interface import (
    WRITTEN,
    controls,
    set_value,
    text_of_tokens,
    wait_until_ready,
    write,
)
from tests.browser.runs import write_page, write_run
from tests.insight.report.report_runs import started_from_a_base

pytestmark = pytest.mark.browser


def opening(tab) -> str:
    return tab.text("h1")


def page_of(built, folder: Path, **baselines: float) -> Path:
    """A run of the bundled stories, 1.250 bits per byte after 267 seconds."""
    run = write_run(folder / "book-1", built)
    metrics = run.metrics_file.read_text()
    run.metrics_file.write_text(metrics.replace('"seconds": 13.0', '"seconds": 267.1'))
    (run.path / "analysis.json").write_text(json.dumps({"baselines": baselines}))
    return write_page(run)


def test_the_page_says_what_it_contains(open_page, gpt, tmp_path):
    """Above the prompt in two sentences; name, size and score are in About."""
    baselines = {"ngram_bits_per_byte": 1.75, "ppmd_bits_per_byte": 1.9}
    tab = open_page(page_of(gpt.built, tmp_path, **baselines))
    assert opening(tab) == "This page contains a language model. It learned to write in 4 minutes."
    trained = "Trained on short stories generated from templates. It continues your text."
    assert tab.text("#facts-line") == f"{trained} Nothing is sent anywhere."
    facts = tab.evaluate(
        """() => Object.fromEntries(Array.from(document.querySelectorAll("#about-body .facts > div"),
          (fact) => Array.from(fact.children, (part) => part.textContent)))"""
    )
    assert facts["Name"] == "book-1" and facts["Size of the text"].startswith("20,000 bytes")
    assert facts["Score"] == (
        "1.250 bits per byte on held-out text; the best baseline, 7-grams of tokens, has 1.750"
    )


def test_the_page_says_what_the_base_knew(open_page, gpt, tmp_path):
    """The score is compared with what needs no neural network."""
    page_of(gpt.built, tmp_path, ngram_bits_per_byte=1.75).unlink()
    run = started_from_a_base(Run(tmp_path / "book-1"), loss=3.0)
    facts = json.loads(run.facts_file.read_text())
    facts["bits_before_training"] = {"model": 1.6, "ngram": 3.0}
    run.facts_file.write_text(json.dumps(facts))
    tab = open_page(write_page(run))
    shown = tab.evaluate(
        """() => Object.fromEntries(Array.from(document.querySelectorAll("#about-body .facts > div"),
          (fact) => Array.from(fact.children, (part) => part.textContent)))"""
    )
    assert shown["Score"].endswith("; the best baseline, 7-grams of tokens, has 1.750")
    began = "began from english, which had 1.500 bits per byte on the held-out text"
    assert shown["Training"] == f"{began}, 40 steps, epoch 2, the best of 2, 4 min 27 s"
    chart = tab.evaluate("() => document.querySelector('#about-body .chart').ariaLabel")
    assert "Validation loss: 1.50 at step 0, 1.25 at step 40." in chart
    assert chart.endswith("Token frequencies: 2.45. 7-grams of tokens: 1.75.")


def test_the_chart_of_one_epoch(open_page, gpt, tmp_path):
    """The training loss of the steps: one epoch has no line."""
    run = write_run(tmp_path / "book", gpt.built, epochs=1)
    # The mean loss so far: the second step has 2.
    means = [{"step": 1, "batches": 1, "mean_loss": 4}, {"step": 2, "batches": 2, "mean_loss": 3}]
    append_lines(run.steps_file, [{"epoch": 1, **mean} for mean in means])
    tab = open_page(write_page(run))
    chart = tab.wait_for("() => document.querySelector('#about-body .chart')?.ariaLabel")
    assert "Training loss: 2.00 at step 1, 1.00 at step 2. Validation" in chart


@pytest.mark.parametrize(
    "baselines",
    [
        {"ngram_bits_per_byte": 1.2},
        {"ngram_bits_per_byte": 1.3, "byte_ngram_bits_per_byte": 1.2},
        {},
    ],
)
def test_a_model_that_does_not_beat_the_ngram_has_not_learned_to_write(
    baselines, open_page, gpt, tmp_path
):
    tab = open_page(page_of(gpt.built, tmp_path, **baselines))
    assert opening(tab) == "This page contains a language model."


MOST_CONTROLS = 20
PROMPTS = ("Ana sat", "Béla sat", "On the hill")


@pytest.mark.parametrize("kind", ["gpt", "pairs", "dialogues", "base"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_reader_finds_at_most_20_controls(kind, width, open_page, request, tmp_path, monkeypatch):
    """With everything that a page can have: three prompts, states of training, the training text."""
    page = tmp_path / "page.html"
    if kind == "base":
        gpt = request.getfixturevalue("gpt")
        gpt.portable()
        base = gpt.page.with_suffix(".gguf")
        monkeypatch.setattr(file_page, "bases", lambda: {"english": base})
        file_page.write_file_page(base, page)
    else:
        built = request.getfixturevalue(kind).built
        options = {} if kind == "pairs" else {"sampling": {"max_new_tokens": 90, "top_k": 0}}
        run = write_run(tmp_path / "all", built, kept_epochs=2, prompts=PROMPTS, **options)
        write_page_with(run, page, text=None if kind == "pairs" else "Ana sat on the hill.")
    tab = open_page(page, width=width, motion=True)
    wait_until_ready(tab)
    if kind != "pairs":
        tab.wait_for("() => !document.getElementById('typing').hidden")
        assert len(controls(tab)) <= MOST_CONTROLS, controls(tab)
        tab.click("#at-once")
    tab.wait_for(WRITTEN)
    assert 5 < len(controls(tab)) <= MOST_CONTROLS, controls(tab)
    if kind != "dialogues":
        tab.evaluate("() => document.querySelector('#text-tokens .token').click()")
        assert "button look-inside Look inside" in controls(tab)
        assert len(controls(tab)) <= MOST_CONTROLS, controls(tab)
    assert overflow(tab) == []


FIELDS = """() => ["prompt", "length", "temperature", "top-k", "seed"].map((id) =>
  document.getElementById(id).value)"""


@pytest.mark.both
def test_a_text_can_be_sent_as_a_link(open_page, gpt):
    """The address has the prompt, the seed, and the settings that are not those of the run."""
    prompt = "Ana & Béla\n #1 + 50% <img src=x onerror='window.hacked=1'>"
    tab = open_page(gpt.page)
    assert "#" not in tab.evaluate("() => location.href")
    text = write(tab, prompt, seed=7, temperature=1.25)
    address = tab.evaluate("() => location.href")
    fragment = address.partition("#")[2]
    assert fragment.startswith("prompt=") and fragment.endswith("&temperature=1.25&seed=7")
    other = open_page(address)
    other.wait_for(WRITTEN)
    assert text_of_tokens(other) == text
    assert other.evaluate(FIELDS) == [prompt, "30", "1.25", "0", "7"]
    assert other.evaluate("() => window.hacked ?? null") is None
    # Writing again writes something new: a link does not keep the seed.
    assert write(other, prompt) != text
    assert other.evaluate("() => location.href") != address


COUNT = "() => document.querySelectorAll('#text-tokens .token').length"
SHOWN = "() => !document.getElementById('typing').hidden"


@pytest.mark.both
def test_it_opens_with_a_text_at_a_pace_that_can_be_read(open_page, gpt, tmp_path):
    """25 tokens a second. It can be paused, goes on token by token, or comes at once."""
    (expected,) = gpt.portable().samples("Ana sat", 60, temperature=0.9, top_k=0, seed=1)
    sampling = {"max_new_tokens": 60, "temperature": 0.9, "top_k": 0, "seed": 1}
    tab = open_page(
        write_page(write_run(tmp_path / "pace", gpt.built, sampling=sampling)), motion=True
    )
    tab.wait_for(SHOWN)
    time, count = tab.evaluate(
        f"""async () => {{
          const start = performance.now(), before = ({COUNT})();
          await new Promise((resolve) => setTimeout(resolve, 1000));
          return [performance.now() - start, ({COUNT})() - before];
        }}"""
    )
    assert count == pytest.approx(0.025 * time, abs=4)
    tab.click("#pause")
    count = tab.evaluate(COUNT)
    tab.evaluate("() => new Promise((resolve) => setTimeout(resolve, 200))")
    assert tab.evaluate(COUNT) == count < len(expected.tokens)
    # Each step shows how its token was chosen.
    tab.click("#more summary")
    tab.click("#step")
    assert tab.evaluate(COUNT) == count + 1
    assert tab.text("#panel-heading") == f"Token {count + 1}"
    tab.click("#pause")
    tab.wait_for(f"(count) => ({COUNT})() > count", count + 1)
    tab.click("#at-once")
    assert text_of_tokens(tab) == expected.text
    assert not tab.evaluate(SHOWN)
    tab.wait_for("() => document.getElementById('status').textContent.startsWith('Done: ')")


def test_a_branch_and_its_token_can_be_sent_as_a_link(open_page, gpt):
    """Each branch has the settings with which it was written."""
    tab = open_page(gpt.page)
    first = write(tab, "Ana sat", seed=7, temperature=0.8)
    set_value(tab, "temperature", 1.5)
    choose = """(index, rank) => {
      document.querySelectorAll("#text-tokens .token")[index].click();
      document.querySelectorAll("button.alternative")[rank].click();
    }"""
    tab.evaluate(choose, 2, 3)
    tab.wait_for(WRITTEN)
    second = text_of_tokens(tab)
    tab.evaluate(choose, 5, 0)
    tab.wait_for(WRITTEN)
    third = text_of_tokens(tab)
    assert len({first, second, third}) == 3
    tab.evaluate("() => document.querySelectorAll('#text-tokens .token')[4].click()")
    tab.wait_for("() => location.hash.endsWith('&token=5')")
    address = tab.evaluate("() => location.href")
    assert (
        "&temperature=0.8&seed=7&branch=3." in address and "&temperature=1.5&branch=6." in address
    )
    other = open_page(address)
    heading = "() => document.getElementById('panel-heading').textContent"
    other.wait_for(f"() => ({heading})() === 'Token 5'")
    assert text_of_tokens(other) == third
    branches = "() => Array.from(document.querySelectorAll('.branch-text'), (b) => b.textContent)"
    assert len(other.evaluate(branches)) == 3
    assert other.evaluate(FIELDS)[2] == "1.5"
    other.wait_for("(hash) => location.hash === hash", tab.evaluate("() => location.hash"))
