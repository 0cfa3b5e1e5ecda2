"""The report of a run, or of several: one HTML file, without a network."""

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import minigpt
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.insight.report.values import (
    certificate_values,
    environment,
    samples_by_prompt,
    setting_rows,
)
from minigpt.pages.inlining import SHARED, json_element, template
from minigpt.runs.analysis import Analysis, Baselines
from minigpt.runs.records import interval_lines, number, numbers, read_lines, spread, text
from minigpt.runs.run import Run, as_run
from minigpt.storage.atomic import replace_file

_MOST_EPOCHS, _MOST_STEPS, _MOST_SAMPLES = 1000, 800, 30
_METRICS = (
    "step",
    "train_loss",
    "val_loss",
    "val_bits_per_byte",
    "val_bleu",
    "tokens_per_second",
    "seconds",
    "learning_rate",
)
_SIZES = ("parameters", "train_bytes", "train_tokens", "val_tokens")
_MEASURED = ("seconds", "tokens_per_second", "learning_rate", "memory_bytes")


def run_facts(run: Run, comparison: bool = False) -> dict[str, Any]:
    """Returns the facts as JSON values; null for what is not known.

    Args:
      run: the run. Its records may be damaged, or come from somebody else.
      comparison: whether to leave out what a comparison of runs does not show.
    """
    known, recorded, name = run.analysis, run.facts, run.path.absolute().name
    try:
        config = run.config
    except UserError:
        config = None
    metrics = _metrics(run)
    scored = [record for record in metrics if record["val_loss"] is not None]
    best = min(scored, key=lambda record: record["val_loss"])["epoch"] if scored else None
    if known.state is None and run.model_file.is_file():
        known = replace(known, state="finished")
    if known.baselines.uniform is None:
        known = replace(known, baselines=Baselines(**recorded.get("baselines", {})))
    if comparison:
        known = replace(known, positions=[], frequencies=[], passages={})
    samples = samples_by_prompt(run.samples_file, best, only_best=comparison)
    if config and config.data.source == "dialogues":
        # An answer begins on a line of its own.
        samples = [group | {"prompt": f"{group.get('prompt', '')}\n"} for group in samples]
    return {
        **_analysis_values(known, name),
        "name": text(name, 300),
        "kind": config.model.kind if config else "gpt",
        **{name: recorded.get(name) for name in _SIZES},
        "description": text(recorded.get("text"), 2000),
        "best_epoch": best,
        "metrics": spread(metrics, _MOST_EPOCHS),
        "epochs": sum(isinstance(record["epoch"], int) for record in metrics),
        "steps": [] if comparison else _steps(run),
        "samples": samples,
        "certificates": certificate_values(run),
        "settings": setting_rows(config) if config else [],
        "environment": environment(text(recorded.get("device"), 300)),
    }


def _analysis_values(known: Analysis, name: str) -> dict[str, Any]:
    """Returns an analysis as JSON values, with the titles of its verdicts and less of its samples.

    Args:
      known: the analysis.
      name: the name of the run, for the commands of the verdicts: without the folders of the user, because
        the page can be given to others.
    """
    measured = {
        state: asdict(replace(each, samples=each.samples[:_MOST_SAMPLES]))
        for state, each in known.memorization.items()
    }
    verdicts = (
        None
        if known.verdicts is None
        else [
            {**each.as_dict(), "title": each.title, "action": each.runnable_action(name)}
            for each in known.verdicts
        ]
    )
    return asdict(known) | {"memorization": measured, "verdicts": verdicts}


def _metrics(run: Run) -> list[dict[str, Any]]:
    """Returns the validations in order. If there are several lines about one, the last one counts."""
    by_epoch = {
        epoch: {"epoch": epoch, **numbers(record, _METRICS)}
        for record in read_lines(run.metrics_file)
        if (epoch := number(record.get("epoch"))) is not None and epoch >= 0
    }
    return [by_epoch[epoch] for epoch in sorted(by_epoch)]


def _steps(run: Run) -> list[dict[str, Any]]:
    """Returns the training loss of each interval of steps.jsonl, and what was measured at its end."""
    lines = interval_lines(read_lines(run.steps_file), _MOST_STEPS)
    return [{"step": line["step"], **numbers(line, ("loss", *_MEASURED))} for line in lines]


REPORT_FILE = "report.html"
_FOLDERS = (SHARED, Path(__file__).parent / "page")


def write_report(runs: Run | str | Path | Sequence[Run | str | Path], output: str | Path) -> None:
    """Writes the report of a run, or a comparison of several, whole or not at all.

    It reads the files in the run directories and loads no model. What is missing or damaged is left
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
        # Nobody names the report in the directory of a run.
        if report["refreshes"]:
            raise UserError(f"{output}: {problem}") from None
        raise UserError(ArgumentProblem("output", output, problem)) from None


def is_own_report(run: Run, output: Path) -> bool:
    """Returns whether a path is that of the report in the directory of a run."""
    return output.name == REPORT_FILE and output.parent.resolve() == run.path.resolve()
