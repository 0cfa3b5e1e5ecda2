"""Hostile text in a report is shown as text, and the page asks for nothing."""

import pytest

from minigpt.insight.report.report import write_report
from tests.browser.accessibility import overflow
from tests.browser.reports import drawn
from tests.browser.test_security import HOSTILE, MARKUP, NAME, is_of_a_page, structure
from tests.insight.report.report_runs import FACTS, analysis_of, memorization_of, write_records

pytestmark = pytest.mark.browser

LONG = "w" * 3000


def hostile_run(path, epochs=3):
    text = f"{HOSTILE} {LONG} \ud800"
    analysis, recorded = analysis_of(epochs), f"{HOSTILE} {LONG}"
    measured = memorization_of(epochs, recorded)
    measured["samples"][0] |= {"prompt": recorded, "copied": [[0, 40]]}
    passage = {"loss": 2.0, "tokens": [[HOSTILE, 3.0], ["\u202e", 1.0], ["\0", 0.1], [LONG, 5.0]]}
    return write_records(
        path,
        epochs=epochs,
        prompts=[text, MARKUP],
        text=text,
        settings={"sampling": {"prompts": [HOSTILE]}},
        facts={**FACTS, "text": text, "device": text},
        analysis={
            "verdicts": [dict.fromkeys(("id", "evidence", "action"), recorded)],
            "text": [{"kind": recorded, "evidence": recorded}],
            "passages": {"hardest": [passage], "easiest": [passage]},
            "memorization": {"best": measured, "last": measured},
            "version": recorded,
            "positions": analysis["positions"],
        },
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    runs = [hostile_run(folder / side / NAME) for side in ("one", "other")]
    usual = [write_records(folder / name, epochs=3, analysis={}) for name in ("a", "b")]
    pages = {}
    for name, written in (("hostile", runs), ("usual", usual)):
        pages[name, 1] = folder / f"{name}.html"
        pages[name, 2] = folder / f"{name}-comparison.html"
        write_report(written[:1], pages[name, 1])
        write_report(written, pages[name, 2])
    return pages


@pytest.mark.both
@pytest.mark.parametrize("runs", [1, 2])
def test_hostile_text_is_shown_as_text(runs, pages, open_page, recorder):
    before = len(recorder.lines)
    tab = drawn(open_page(pages["hostile", runs], width=360, offline=False))
    usual = drawn(open_page(pages["usual", runs], width=360, offline=False))
    for page in (tab, usual):
        page.open_parts()
        page.evaluate("() => document.getElementById('loss-chart').focus()")
        page.press("End")
    elements, attributes = structure(tab)
    usual_elements, usual_attributes = structure(usual)
    # What is between backticks in a verdict is code.
    assert elements <= usual_elements | {"code"} and attributes <= usual_attributes
    assert not [name for name in attributes if name.startswith("on")]
    assert tab.evaluate("() => window.hacked ?? null") is None
    counts = """() => ["head > *", "body > *", "main > section"].map((selector) =>
      document.querySelectorAll(selector).length)"""
    assert tab.evaluate(counts) == usual.evaluate(counts)
    assert tab.messages == []
    text = tab.text("main")
    assert text.count(MARKUP) >= (10 if runs == 1 else 5)
    # Characters that change the direction of what follows, or that cannot be seen, have names.
    assert "\u202e" not in text and "\u2066" not in text and "\0" not in text
    assert "\u202e" not in tab.text("header")
    assert "‹U+202E›" in text and "‹U+D800›" in text
    # Long words do not make the page wider.
    assert overflow(tab) == []
    own = {address for address in tab.requests if not address.startswith("data:")}
    assert own <= {pages["hostile", runs].absolute().as_uri()}
    assert not [line for line in recorder.lines[before:] if is_of_a_page(line)]


@pytest.mark.both
def test_what_a_script_would_add_is_refused(pages, open_page):
    tab = open_page(pages["usual", 1], offline=False)
    refused = tab.evaluate(
        """async () => {
          const refused = [];
          const listen = (event) => refused.push(event.effectiveDirective);
          document.addEventListener("securitypolicyviolation", listen);
          const script = document.createElement("script");
          script.textContent = "window.hacked = 1";
          document.body.append(script);
          await fetch("http://attacker.invalid/").catch(() => {});
          try { new Worker(URL.createObjectURL(new Blob(["0"]))); } catch {}
          try { await WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])); } catch {}
          await new Promise((resolve) => setTimeout(resolve, 200));
          return refused;
        }"""
    )
    assert {"script-src-elem", "connect-src", "worker-src"} <= set(refused)
    assert tab.evaluate("() => window.hacked ?? null") is None
