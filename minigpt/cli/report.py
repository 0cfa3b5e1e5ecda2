"""`minigpt report`: writes the report of a run, or compares runs."""

import logging
from pathlib import Path
from typing import Annotated

import typer

import minigpt
from minigpt.cli.command import command, given_path
from minigpt.errors import ArgumentProblem, UserError
from minigpt.insight.report.report import REPORT_FILE, is_own_report, write_report
from minigpt.runs.analysis import read_analysis
from minigpt.runs.run import Run

logger = logging.getLogger(__name__)


@command({"run": "RUN", "output": "--output"})
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", parser=given_path, help="Run directory; several are compared."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="New file for the report. Default, for one run: report.html in its directory.",
        ),
    ] = None,
) -> None:
    """Write the report of a run, or compare several, as a web page."""
    opened = [Run(path) for path in runs]
    if output is None:
        if len(opened) > 1:
            raise UserError("--output: should be given with several runs, as a new file")
        output = opened[0].path / REPORT_FILE
    own = len(opened) == 1 and is_own_report(opened[0], output)
    if output.exists() and not own:
        raise UserError(ArgumentProblem("output", output, "exists; should be a new file"))
    for run in opened:
        _examine_once(run)
    write_report(opened, output)
    print(f"Wrote {output}")


def _examine_once(run: Run) -> None:
    """Examines a run that was trained and has no verdicts yet."""
    was_trained = run.corpus_file.is_file() and run.metrics_file.is_file()
    if not was_trained or read_analysis(run).get("verdicts") is not None:
        return
    try:
        minigpt.examine(run, sweep=False)
    except UserError as error:
        logger.warning("The report is incomplete: %s", error)
