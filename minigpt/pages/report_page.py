"""The report of a run, or of several: one HTML file, without a network."""

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import minigpt
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.pages.inlining import json_element, template
from minigpt.pages.report_facts import run_facts
from minigpt.runs.run import Run, as_run
from minigpt.storage.atomic import replace_file

REPORT_FILE = "report.html"
_FOLDERS = [Path(__file__).parent / name for name in ("shared", "report")]


def write_report(runs: Run | str | Path | Sequence[Run | str | Path], output: str | Path) -> None:
    """Writes the report of a run, or a comparison of several, whole or not at all.

    It is made of the files in the run directories; no model is loaded. What is missing or damaged is left
    out. The report of a run in its own directory reloads itself while the run is trained.

    Args:
      runs: one run or more, or their directories.
      output: the file; an existing one is replaced. Its parents are created.
    Raises:
      UserError: there is no such run, or the file cannot be written.
      ValueError: `runs` is empty.
      TypeError: an argument has the wrong type.
    """
    output = as_path("output", output)
    if isinstance(runs, Run | str | os.PathLike):
        runs = [runs]
    if not isinstance(runs, Iterable):
        raise TypeError(f"`runs` must be a run, its path, or a list of these. Received: {runs!r}")
    opened = [as_run(run) for run in runs]
    if not opened:
        raise ValueError("`runs` must contain at least one run.")
    compared = len(opened) > 1
    facts = [run_facts(run, compared) for run in opened]
    names = [str(run["name"]) for run in facts]
    title = f"Comparison of {len(names)} runs" if compared else f"{names[0]} – report"
    report = {
        "version": minigpt.__version__,
        "written": time.time(),
        "refreshes": not compared and is_own_report(opened[0], output),
        "runs": facts,
    }
    before, after = template(title, *_FOLDERS)
    page = f"{before}{json_element('report', report)}{after}"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, page.encode())
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise UserError(ArgumentProblem("output", output, problem)) from None


def is_own_report(run: Run, output: Path) -> bool:
    """Returns whether a path is that of the report in the directory of a run."""
    return output.name == REPORT_FILE and output.parent.resolve() == run.path.resolve()
