"""Reports, and what tests ask of them."""

from pathlib import Path
from typing import Any

from minigpt.insight.report.report import REPORT_FILE, write_report
from minigpt.runs.run import Run
from tests.browser.tabs import Tab
from tests.insight.report.report_runs import write_certificate, write_records, write_state

RESUMED = [7, 21, 22, 40, 75]


def report_of(run: Run) -> Path:
    write_report([run], run.path / REPORT_FILE)
    return run.path / REPORT_FILE


def write_reports(folder: Path) -> dict[str, Path]:
    """Returns the paths of reports, by name."""
    usual = write_records(folder / "usual", analysis={"resumed_at": RESUMED})
    write_certificate(usual, "old.gguf", checkpoint=write_state(usual, 60, 3))
    newer = {"checkpoint": write_state(usual, 80, 4), "date": "2026-11-24T09:00:00+00:00"}
    write_certificate(usual, "<b>new</b>.onnx", format="onnx", problems=["too <i>far</i>"], **newer)
    runs = [
        write_records(
            folder / f"run-{number}",
            epochs=3 + number,
            settings={"training": {"batch_size": number, "step_limits": [[number, 90]]}},
            analysis={"verdicts": [[], None][number]} if number < 2 else {},
        )
        for number in range(1, 7)
    ]
    write_certificate(runs[2])
    write_report(runs, folder / "comparison.html")
    return {"usual": report_of(usual), "comparison": folder / "comparison.html"}


def texts_of(tab: Tab, selector: str) -> Any:
    return tab.evaluate(
        "(selector) => Array.from(document.querySelectorAll(selector), (e) => e.textContent)",
        selector,
    )


def drawn(tab: Tab) -> Tab:
    tab.wait_for("() => document.querySelector('.plot-area svg') !== null")
    return tab
