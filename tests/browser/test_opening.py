"""What a reader finds when the page is opened: what it contains, and the text of a link."""

import json

import pytest

from minigpt.targets.html.writing import write_file_page
from tests.browser.interface import WRITTEN, text_of_tokens, wait_until_ready, write
from tests.browser.runs import write_page, write_run

pytestmark = pytest.mark.browser


def opening(tab) -> str:
    return tab.evaluate("() => document.querySelector('h1').textContent")


def test_the_page_says_what_it_contains(open_page, gpt, tmp_path):
    run = write_run(tmp_path / "book-1", gpt.built)
    metrics = run.metrics_file.read_text()
    run.metrics_file.write_text(metrics.replace('"seconds": 13.0', '"seconds": 267.1'))
    baselines = {"ngram_bits_per_byte": 1.75, "xz_bits_per_byte": 1.9, "zstd_bits_per_byte": None}
    (run.path / "analysis.json").write_text(json.dumps({"baselines": baselines}))
    tab = open_page(write_page(run))
    assert opening(tab) == "This page contains a language model. It learned to write in 4 minutes."
    parameters = sum(weight.size for weight in gpt.built.weights)
    assert tab.evaluate(
        "() => Array.from(document.querySelectorAll('#facts-line > *'), (fact) => fact.textContent)"
    ) == [
        "book-1",
        "Text: short stories generated from templates; tiny.txt, 90% for training; 20 kB",
        f"{parameters:,} parameters",
        "1.250 bits per byte on held-out text; the best baseline, 7-grams of tokens, has 1.750",
        "It continues your text. Nothing is sent anywhere.",
    ]


def test_what_is_not_known_is_not_said(open_page, gpt, pairs, tmp_path):
    """A portable file has neither the time of its training nor baselines."""
    tab = open_page(pairs.page)
    assert opening(tab) == (
        "This page contains a translation model. It learned to translate in 13 seconds."
    )
    gpt.portable()
    write_file_page(gpt.page.with_suffix(".gguf"), tmp_path / "file.html")
    tab = open_page(tmp_path / "file.html")
    assert opening(tab) == "This page contains a language model."
    facts = tab.evaluate("() => document.getElementById('facts-line').textContent")
    assert "bits per byte on held-out text" in facts and "baseline" not in facts


FIELDS = """() => ["prompt", "length", "temperature", "top-k", "seed"].map((id) =>
  document.getElementById(id).value)"""


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


def test_another_link_in_an_open_page(open_page, gpt):
    tab = open_page(gpt.page)
    write(tab, "Béla", seed=7, temperature=1.25, top_k=3)
    tab.evaluate("() => { location.hash = '#prompt=Ana&seed=3'; }")
    tab.wait_for("() => document.getElementById('text-prompt').textContent === 'Ana'")
    tab.wait_for(WRITTEN)
    assert tab.evaluate(FIELDS) == ["Ana", "30", "0.9", "0", "3"]
    options = {"temperature": 0.9, "top_k": 0, "stop": ["hill"], "seed": 3}
    (expected,) = gpt.portable().generate("Ana", 30, **options)
    assert text_of_tokens(tab).startswith(expected)


def test_addresses_that_are_no_links(open_page, gpt):
    """Values that are not allowed are left out. A section of the page is no text."""
    wrong = "#prompt=Ana&temperature=-1&topK=x&maxNewTokens=&seed=1e999&other=5"
    tab = open_page(gpt.page.as_uri() + wrong)
    tab.wait_for(WRITTEN)
    assert tab.evaluate(FIELDS) == ["Ana", "30", "0.9", "0", "5"]
    assert tab.evaluate("() => document.getElementById('alert').textContent") == ""
    tab = open_page(gpt.page.as_uri() + "#about")
    wait_until_ready(tab)
    assert text_of_tokens(tab) == ""
    assert tab.evaluate(FIELDS)[0] == "Ana sat"
    # A prompt that is too long for a link.
    write(tab, "Ana ")
    assert tab.evaluate("() => location.hash") == "#prompt=Ana+&seed=5"
    write(tab, "Ana " * 1500)
    assert tab.evaluate("() => location.hash") == ""


def test_a_translation_can_be_sent_as_a_link(open_page, pairs):
    tab = open_page(pairs.page)
    text = write(tab, "Béla sat")
    other = open_page(tab.evaluate("() => location.href"))
    other.wait_for(WRITTEN)
    assert text_of_tokens(other) == text
    assert other.evaluate("() => document.getElementById('prompt').value") == "Béla sat"
