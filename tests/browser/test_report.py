"""What the report shows in browsers."""

import pytest

from tests.browser.reports import RESUMED, drawn, report_of, texts_of
from tests.insight.report.report_runs import (
    BYTES_PER_TOKEN,
    loss_after,
    memorization_of,
    started_from_a_base,
    write_records,
)

pytestmark = pytest.mark.browser


@pytest.mark.both
def test_the_first_screen(reports, open_page):
    """One sentence, the curve and the best sample; the list of sections stays when the page moves."""
    tab = drawn(open_page(reports["usual"]))
    best = f"{loss_after(4) / 0.6931472 / BYTES_PER_TOKEN:.3f} bits per byte on the held-out text"
    sentence = f"After 16 s and 80 steps, the best model reaches {best}; the best baseline, "
    assert tab.text("#overview .lead") == sentence + "7-gram, reaches 2.020."
    assert tab.text("#overview h4") == "Epoch 4 best"
    sample = "Ana sat on the hill, and the sun was low. Epoch 4."
    assert tab.text("#overview .sample-text") == sample
    bottom = "() => document.querySelector('#overview').getBoundingClientRect().bottom"
    assert tab.evaluate(bottom) < 800
    names = texts_of(tab, "#nav a")
    assert names == texts_of(tab, "main h2") and len(names) == 11
    top = "() => document.querySelector('#nav').getBoundingClientRect().top"
    tab.evaluate("() => scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })")
    tab.wait_for(f"() => scrollY > 600 && Math.abs(({top})()) < 1")
    # What a link leads to is below the list.
    tab.evaluate("() => document.querySelector('#nav a[href=\"#samples\"]').click()")
    heading = "document.querySelector('#samples h2').getBoundingClientRect()"
    list_end = "document.querySelector('.sections').getBoundingClientRect().bottom"
    tab.wait_for(f"() => {heading}.top < innerHeight && {heading}.top >= {list_end}")


@pytest.mark.parametrize("width", [390, 640])
def test_all_sections_are_listed(width, reports, open_page):
    """A narrow window, or a zoom of 200%: no link is outside it."""
    tab = open_page(reports["usual"], width=width)
    right = "() => Array.from(document.querySelectorAll('#nav a'), (e) => e.getBoundingClientRect().right)"
    assert max(tab.evaluate(right)) <= width


def test_a_run_that_began_from_a_base(open_page, tmp_path):
    """The overview says what the base knew and what was learned; the curve begins there."""
    run = started_from_a_base(write_records(tmp_path / "run", analysis={}), loss=4.0)
    tab = drawn(open_page(report_of(run)))
    bits = [loss / 0.6931472 / BYTES_PER_TOKEN for loss in (4.0, 4.0 - loss_after(4))]
    assert tab.text("#overview .lead").endswith(
        f" Training began from english, which has {bits[0]:.3f} bits per byte on this text; "
        f"training lowered this by {bits[1]:.3f}."
    )
    line = tab.evaluate("() => document.querySelector('#overview svg').ariaLabel")
    assert f"validation: first {bits[0]:.3f}" in line
    # Training made it worse.
    run = started_from_a_base(write_records(tmp_path / "worse", analysis={}), loss=2.0)
    tab = drawn(open_page(report_of(run)))
    assert tab.text("#overview .lead").endswith("on this text; no state after it is better.")
    assert tab.text("#figures .figure-note").startswith("before training; ")


def test_memorization_of_a_state_is_shown_once(reports, open_page, tmp_path):
    """The last state of the usual report is its best one."""
    headings = "#memorization h3"
    assert texts_of(drawn(open_page(reports["usual"])), headings) == ["Best model"]
    measured = {"best": memorization_of(2), "last": memorization_of(4)}
    run = write_records(tmp_path / "run", analysis={"memorization": measured})
    assert texts_of(drawn(open_page(report_of(run))), headings) == ["Best model", "Last state"]


OPEN = """() => Array.from(document.querySelectorAll("main > section"))
  .filter((part) => !part.querySelector(":scope > details:not([open])")).map((part) => part.id)"""
FIRST = ["overview", "verdicts", "samples", "memorization"]


def test_what_is_folded_is_found(reports, open_page):
    """By a search for words, by the list of sections, by an address, and on paper."""
    address = reports["usual"].absolute().as_uri()
    tab = drawn(open_page(reports["usual"]))
    assert tab.evaluate(OPEN) == FIRST
    tab.click("#nav a[href='#losses']")
    tab.wait_for("() => document.querySelector('#losses .plot-area svg')?.checkVisibility()")
    assert tab.evaluate(OPEN) == [*FIRST, "losses"]
    linked = open_page(f"{address}#breakdown")
    assert linked.evaluate(OPEN) == [*FIRST, "breakdown"]
    linked.page.emulate_media(media="print")
    assert linked.evaluate("() => document.querySelector('#settings table').checkVisibility()")
    # A search cannot be typed by a program. The words of an address are found as those of a search.
    found = open_page(f"{address}#:~:text=training.schedule")
    found.wait_for("() => document.getElementById('other-settings').open")
    assert found.evaluate(OPEN) == [*FIRST, "settings"]


@pytest.mark.both
def test_the_values_of_the_chart_by_keyboard(usual):
    tab = usual
    value = "() => document.getElementById('loss-chart').getAttribute('aria-valuetext')"
    tab.click("#axis-step")
    tab.evaluate("() => document.getElementById('loss-chart').focus()")
    tab.press("Home")
    # The first line of steps.jsonl: the mean of the losses of five steps.
    training = (5 - 0.001 * 3) / 0.6931472 / BYTES_PER_TOKEN
    first = loss_after(1) / 0.6931472 / BYTES_PER_TOKEN
    measured = f"validation {first:.3f} (epoch 1, step 20)"
    assert tab.evaluate(value) == f"Step 5: training {training:.3f}, {measured}"
    tab.press("ArrowRight", 2)
    assert tab.evaluate(value).startswith("Step 15: ")
    assert tab.text("#losses .readout strong") == "Step 15"
    tab.press("ArrowRight")
    assert tab.evaluate(value).endswith(f"validation {first:.3f} (epoch 1)")
    tab.press("End")
    assert "(epoch 4)" in tab.evaluate(value)
    tab.click("#axis-seconds")
    tab.evaluate("() => document.getElementById('loss-chart').focus()")
    tab.press("End")
    assert tab.evaluate(value).startswith("After 16 s: ")
    tab.click("#axis-tokens")
    tab.click("#scale-log")
    tab.press("Tab")
    tab.press("End")
    assert tab.evaluate(value).startswith("After 40,960 tokens: ")


def test_every_loss_names_its_unit(usual, open_page, tmp_path):
    """The curves have bits per byte if they are known; groups of tokens have nats per token."""
    unit = """(chart) => [chart.ariaLabel.split(".")[0],
      ...Array.from(chart.querySelectorAll("text"), (text) => text.textContent)]"""
    curves = "#overview svg", "#losses figure svg"
    show = "(selector) => (" + unit + ")(document.querySelector(selector))"
    for selector in curves:
        title, *drawn_words = usual.evaluate(show, selector)
        assert title == "Loss, bits per byte" and title in drawn_words
    assert "Nats per token" in texts_of(usual, "#breakdown th")
    losses = [name for name in texts_of(usual, "#losses th") if " loss" in name]
    assert len(losses) == 3 and all(name.endswith("nats") for name in losses)
    unknown = write_records(tmp_path / "run")
    lines = unknown.metrics_file.read_text().replace("val_bits_per_byte", "unknown")
    unknown.metrics_file.write_text(lines)
    title, *drawn_words = drawn(open_page(report_of(unknown))).evaluate(show, curves[0])
    assert title == "Loss, nats per token" and title in drawn_words


def test_an_interrupted_training(usual):
    tab = usual
    assert "training was resumed 5 times" in texts_of(tab, ".chart-key li")
    marks = "() => document.querySelectorAll('#losses .plot-area .mark').length"
    assert tab.evaluate(marks) == len(RESUMED)
    tab.click("#axis-seconds")
    assert tab.evaluate(marks) == len(RESUMED)


def test_two_epochs_side_by_side(usual):
    tab = usual
    cards = "#samples .sample-group:first-child .sample-card"
    assert texts_of(tab, f"{cards} h4") == ["Epoch 3", "Epoch 4 best"]
    prompt = "Ana sat on the hill, and the sun was low. Epoch "
    assert texts_of(tab, f"{cards} p") == [f"{prompt}3.", f"{prompt}4."]
    assert texts_of(tab, f"{cards} del") == ["3"] and texts_of(tab, f"{cards} ins") == ["4"]
    choose = """(value) => {
      const select = document.getElementById("epoch-before");
      select.value = value;
      select.dispatchEvent(new Event("change"));
    }"""
    tab.evaluate(choose, "1")
    assert texts_of(tab, f"{cards} h4") == ["Epoch 1", "Epoch 4 best"]
    tab.click("#samples-mode-all")
    assert texts_of(tab, f"{cards} ins") == ["2", "3", "4"]


def test_certificates(usual):
    tab = usual
    table = "#certificates table"
    assert tab.text(f"{table} caption") == "Certificates of the exports"
    titles = texts_of(tab, f"{table} thead th[scope=col]")
    rows = [
        [*texts_of(tab, f"{row} th[scope=row]"), *texts_of(tab, f"{row} td")]
        for row in (f"{table} tbody tr:nth-child({number})" for number in (1, 2))
    ]
    new, old = (dict(zip(titles, row, strict=True)) for row in rows)
    assert new["Export"] == "<b>new</b>.onnx" and new["Format"] == "onnx"
    assert new["Within tolerance"] == "no: too <i>far</i>" and new["Made of"] == "the best model"
    assert old == {
        "Export": "old.gguf",
        "Format": "gguf",
        "Weights": "int8",
        "Size": "2.9 MB",
        "Largest difference of logits": "0.12",
        "Same greedy texts": "41 of 50",
        "Bits per byte of the run": "1.2346",
        "Bits per byte of the export": "1.2351",
        "Bits per byte measured on": "the first 2,000 tokens: held-out text of the run",
        "Lines with the same tokens": "2,000 of 2,000",
        "Tokens per second": "1,716",
        "Within tolerance": "yes",
        "Made of": "older weights: step-00000060-epoch-3",
    }


def test_a_comparison(reports, open_page):
    tab = drawn(open_page(reports["comparison"]))
    lines = tab.evaluate(
        """() => Array.from(document.querySelectorAll("#losses .plot-area .series"), (series) => [
          getComputedStyle(series).color,
          series.querySelector("polyline").getAttribute("stroke-dasharray"),
          series.querySelector("path").getAttribute("d"),
        ])"""
    )
    assert len(lines) == 6
    assert len({color for color, _, _ in lines}) == 6
    # Not by color alone.
    assert len({(dash, marker) for _, dash, marker in lines}) == 6
    diagnoses = texts_of(tab, ".run-card")
    assert "Not examined yet." in diagnoses[0] and "Still improving" in diagnoses[5]
    assert texts_of(tab, "#settings tbody th") == ["training.batch_size"]
    assert texts_of(tab, "#settings tbody td") == list("123456")
    (certificate,) = texts_of(tab, "#certificates tbody tr")
    assert certificate.startswith("run-3stories.ggufggufint8")
    rows = texts_of(tab, "#figures tbody tr")
    assert len(rows) == 6 and f"{loss_after(9) / 0.6931472 / BYTES_PER_TOKEN:.3f}" in rows[5]
    assert len(texts_of(tab, "#samples .sample-group:first-of-type .sample-card")) == 6
