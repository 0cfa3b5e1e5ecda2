"""What a reader finds when the page is opened: what it contains."""

import json

import pytest

from minigpt.targets.html.writing import write_file_page
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
