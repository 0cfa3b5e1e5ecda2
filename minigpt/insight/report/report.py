"""The report of a run, or of several: one HTML file, without a network."""

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import minigpt
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.insight.report.values import (
    analysis_values,
    certificate_values,
    environment,
    read_settings,
    samples_by_prompt,
)
from minigpt.pages.inlining import SHARED, json_element, template
from minigpt.runs.records import (
    count,
    counts,
    interval_lines,
    mapping,
    number,
    numbers,
    read_lines,
    spread,
    text,
)
from minigpt.runs.run import Run, as_run
from minigpt.storage.atomic import replace_file

_MOST_EPOCHS, _MOST_STEPS = 1000, 800
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
    analysis = analysis_values(run.path)
    recorded = run.facts
    settings = read_settings(run.config_file)
    metrics = _metrics(run)
    best = _best_epoch(metrics)
    if analysis["state"] is None and run.model_file.is_file():
        analysis["state"] = "finished"
    analysis["tokens_per_step"] = analysis["tokens_per_step"] or _tokens_per_step(settings.sections)
    if analysis["baselines"]["uniform"] is None:
        analysis["baselines"].update(mapping(recorded.get("baselines")))
    if comparison:
        for name in ("positions", "frequencies", "passages", "sweep"):
            analysis[name] = None
    kind = settings.sections.get("model", {}).get("kind")
    samples = samples_by_prompt(run.samples_file, best, only_best=comparison)
    if settings.sections.get("data", {}).get("source") == "dialogues":
        # An answer begins on a line of its own.
        samples = [group | {"prompt": f"{group.get('prompt', '')}\n"} for group in samples]
    return {
        **analysis,
        "name": text(run.path.absolute().name, 300),
        "kind": kind if kind == "encoder_decoder" else "gpt",
        **counts(recorded, _SIZES),
        "description": text(recorded.get("text"), 2000),
        "best_epoch": best,
        "metrics": spread(metrics, _MOST_EPOCHS),
        "epochs": sum(isinstance(record["epoch"], int) for record in metrics),
        "steps": [] if comparison else _steps(run),
        "samples": samples,
        "certificates": certificate_values(run),
        "settings": settings.rows,
        "environment": environment(text(recorded.get("device"), 300)),
    }


def _metrics(run: Run) -> list[dict[str, Any]]:
    """Returns the validations in order. If there are several lines about one, the last one counts."""
    by_epoch = {
        epoch: {"epoch": epoch, **numbers(record, _METRICS)}
        for record in read_lines(run.metrics_file)
        if (epoch := number(record.get("epoch"))) is not None and epoch >= 0
    }
    return [by_epoch[epoch] for epoch in sorted(by_epoch)]


def _best_epoch(metrics: list[dict[str, Any]]) -> float | None:
    known = [record for record in metrics if record["val_loss"] is not None]
    return min(known, key=lambda record: record["val_loss"])["epoch"] if known else None


def _tokens_per_step(settings: dict[str, dict[str, Any]]) -> int | None:
    """Returns the tokens of a weight update; None for pairs, whose lengths differ."""
    model, training = settings.get("model", {}), settings.get("training", {})
    longest = count(model.get("max_len"))
    sizes = [count(training.get("batch_size")), count(training.get("accumulate_steps", 1)), longest]
    if model.get("kind", "gpt") != "gpt" or None in sizes:
        return None
    batch, accumulated, length = (size or 0 for size in sizes)
    return batch * accumulated * min(count(training.get("sequence_length")) or length, length)


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
