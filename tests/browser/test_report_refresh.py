"""The report reloads itself while its run is trained, and keeps what the reader has chosen."""

import json
import time

import pytest

from minigpt.insight.report.report import REPORT_FILE, write_report
from tests.insight.report.report_runs import write_records

pytestmark = pytest.mark.browser

# Epochs of a second: the page reloads after the shortest interval, two seconds.
SECONDS_PER_EPOCH = 1.0
STATUS = "() => document.getElementById('refresh-status').textContent"
MARK = "() => { window.isFirst = true; }"


def write(run, **changes):
    file = run.path / "analysis.json"
    content = json.loads(file.read_text()) | {"written": time.time()} | changes
    file.write_text(json.dumps(content))
    write_report([run], run.path / REPORT_FILE)


@pytest.fixture
def training(tmp_path):
    run = write_records(
        tmp_path / "run", epochs=6, analysis={}, seconds_per_epoch=SECONDS_PER_EPOCH
    )
    write(run, state="training", planned_steps=1000)
    return run


def read(tab, function, *arguments):
    """Calls a function of JavaScript, again if the page was just being replaced."""
    for _ in range(20):
        try:
            return tab.evaluate(function, *arguments)
        except Exception as error:
            if not any(word in str(error) for word in ("context", "navigat", "detached", "realm")):
                raise
        time.sleep(0.1)
    raise AssertionError("the page was replaced 20 times")


def status(tab):
    return read(tab, STATUS)


def wait_until(tab, condition, *arguments):
    for _ in range(80):
        if read(tab, condition, *arguments):
            return
        time.sleep(0.1)
    raise AssertionError(f"waited in vain: {condition}")


def wait_for_reload(tab):
    wait_until(tab, "() => document.readyState === 'complete' && !(window.isFirst ?? false)")


def is_same_after(tab, seconds):
    time.sleep(seconds)
    return tab.evaluate("() => window.isFirst === true")


@pytest.mark.both
def test_it_reloads_until_the_training_has_ended(training, open_page):
    tab = open_page(training.path / REPORT_FILE)
    assert status(tab).startswith("Training is running: this page reloads itself every 2 s")
    assert "step 120 of 1,000 (12%)" in tab.text("#facts-line")
    tab.click("#losses-fold-title")
    tab.click("#axis-seconds")
    tab.click("#numbers-title")
    place = tab.evaluate(
        """() => {
          const select = document.getElementById("epoch-before");
          select.value = "2";
          select.dispatchEvent(new Event("change"));
          document.activeElement.blur();
          const top = document.getElementById("samples").getBoundingClientRect().top + scrollY + 40;
          scrollTo({ top, behavior: "instant" });
          window.isFirst = true;
          return scrollY;
        }"""
    )
    wait_for_reload(tab)
    # The page may be replaced again at any time.
    wait_until(tab, "(place) => Math.abs(scrollY - place) < 3", place)
    chosen = read(
        tab,
        """() => [document.getElementById("axis-seconds").checked,
          document.getElementById("numbers").checkVisibility(),
          document.getElementById("epoch-before").value,
          document.getElementById("epoch-after").value]""",
    )
    assert chosen == [True, True, "2", "6"]
    write(training, state="finished")
    tab.evaluate(MARK)
    wait_for_reload(tab)
    assert status(tab) == "Training has ended. This page no longer reloads itself."
    tab.evaluate(MARK)
    assert is_same_after(tab, 2.5)
    assert tab.messages == []


def test_it_stops_when_nothing_was_written_for_long(training, chromium):
    """The run was killed."""
    write(training, written=time.time() - 720)
    tab = chromium.open(training.path / REPORT_FILE)
    assert status(tab).startswith("Nothing was written for 12 min: the run may have been killed")
    tab.evaluate(MARK)
    assert is_same_after(tab, 2.5)
    tab.click("#refresh-button")
    assert status(tab).startswith("Training is running")
    tab.close()
