"""The examination of a run by the doctor, after its training."""

import logging
import math
from pathlib import Path
from typing import Any

from minigpt.corpus.store_files import Corpus
from minigpt.errors import ArgumentProblem, UserError
from minigpt.insight.doctor import as_records, diagnose
from minigpt.insight.history import read_history
from minigpt.insight.measuring import measure_all
from minigpt.insight.record import read_analysis, write_analysis
from minigpt.insight.verdict import Verdict
from minigpt.pages.report_page import write_report
from minigpt.runs.corpus import open_run_corpus
from minigpt.runs.lock import run_lock
from minigpt.runs.run import Run, as_run

logger = logging.getLogger(__name__)


def examine(run: Run | str | Path, *, sweep: bool = True) -> list[Verdict]:
    """Examines the last state of a training, measuring what its report does not have yet.

    What is found is written to analysis.json and report.html in the directory of the run. If the text has
    changed since training, or the files cannot be written, a warning is logged, and the rest is done.

    Args:
      run: a run, or its directory. Nothing trains it at the moment.
      sweep: whether to try other learning rates in short trainings from the beginning, which takes a
        minute or two. If False, an earlier sweep counts.
    Returns:
      The verdicts; none if nothing is wrong.
    Raises:
      UserError: the run was imported, or is being trained.
    """
    run = as_run(run)
    if not run.corpus_file.is_file():
        raise UserError(ArgumentProblem("run", run.path, "was imported, not trained"))
    with run_lock(run.path):
        corpus = _corpus(run)
        analysis = read_analysis(run)
        if analysis.get("state") == "training":
            analysis["state"] = "interrupted"  # The process was killed.
        if corpus is not None:
            analysis |= measure_all(run, corpus, run.config, analysis, _log)
            if run.metrics_file.is_file() and not analysis.get("positions"):
                analysis |= _broken_down(run, corpus)
            if sweep:
                analysis |= _swept(run)
        verdicts = diagnose(read_history(run, analysis))
        analysis["verdicts"] = as_records(verdicts)
        try:
            write_analysis(run, analysis)
            write_report([run], run.report_file)
        except OSError as error:
            logger.warning("%s: cannot be written: %s", error.filename, error.strerror)
    return verdicts


def _corpus(run: Run) -> Corpus | None:
    """Returns the text of a run; None, with a warning, if it is not there any more."""
    try:
        corpus = open_run_corpus(run)
        problem = "" if corpus else f"{run.path}: its text has changed since training"
    except UserError as error:
        corpus, problem = None, str(error)
    if corpus is None:
        logger.warning("%s. What needs the text is not measured.", problem)
    return corpus


def _log(line: str) -> None:
    logger.info("%s", line)


def _broken_down(run: Run, corpus: Corpus) -> dict[str, Any]:
    """Returns the keys of analysis.json about where the loss of the best model is."""
    # Imports TensorFlow.
    from minigpt.training.tasks import build_task

    _log("Measuring: the loss by position and token.")
    task = build_task(run.config, corpus)
    task.set_model(run.load_model())
    task.loss()
    assert task.breakdown is not None
    return task.breakdown.as_dict()


def _swept(run: Run) -> dict[str, Any]:
    """Returns the keys of analysis.json about a sweep; {} if updates take too long."""
    # Imports TensorFlow.
    from minigpt.insight.sweep import TooSlow, sweep_learning_rates

    try:
        found = sweep_learning_rates(run, _log)
    except TooSlow as error:
        _log(f"No learning rates are tried: {error}")
        return {}
    return {
        "sweep_steps": found.steps,
        "sweep": [
            {"learning_rate": rate, "loss": loss if math.isfinite(loss) else None}
            for rate, loss in sorted(found.losses.items())
        ],
    }
