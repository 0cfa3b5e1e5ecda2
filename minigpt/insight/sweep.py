"""Sweeps: a run is trained for each point of a grid of settings, one after the other."""

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minigpt.config import Config
from minigpt.config.beginning import AUTO
from minigpt.config.loading import check_strings, load_new_config
from minigpt.corpus.sources import open_source
from minigpt.corpus.text_files import recorded_path
from minigpt.distribution.launch import launch
from minigpt.errors import ArgumentProblem, UserError, as_path, gathering, naming_arguments
from minigpt.insight.report.report import REPORT_FILE, write_report
from minigpt.insight.run_list import RunSummary, is_run, list_runs
from minigpt.interrupts import INTERRUPTED, Interrupted
from minigpt.notices import LOGGER
from minigpt.runs.base_file import run_or_file
from minigpt.runs.layout import bases, check_new_run, model_path
from minigpt.runs.run import Run


def sweep(
    values: Mapping[str, Sequence[Any]],
    config: str | Path | None = None,
    *,
    output: str | Path,
    text: Sequence[str | Path] = (),
    base: str | Path | None = None,
) -> list[RunSummary]:
    """Trains a run for each combination of values of settings, and compares them in a report.

    Each run is trained by a process of its own, which prints as `minigpt train` does. The same call
    continues a sweep that was interrupted: finished runs are kept, the others are resumed.

    Args:
      values: setting → its values, such as `{"training.learning_rate": [1e-3, 4e-3]}`.
      config: a path or the name of a shipped configuration. None for the default configuration, or, with
        `text`, for settings that suit it.
      output: the folder of the runs, which have the names of their values, and of report.html.
      text: paths for `data.paths`.
      base: as for `train`; None for "auto" with a text alone.
    Returns:
      The runs, the best first: by bits per byte, or by the validation loss if the tokenizer loses part of
      the text. The state of those that did not end is not "finished"; they are last.
    Raises:
      UserError: with all problems of the settings, because a run was started with others, or because
        `output` is a run or a file. Nothing is trained.
      TypeError: an argument has the wrong type.
      KeyboardInterrupt: after Ctrl-C, with the state saved.
    """
    check_strings("text", text)
    output = as_path("output", output)
    paths = [recorded_path(str(path)) for path in text]
    if base is not None and model_path(base).exists():
        base = str(base) if str(base) in bases() else recorded_path(str(base))
    with naming_arguments(base=base):
        trials = _trials(values, config, output, paths, base)
    for number, (path, settings) in enumerate(trials.items(), 1):
        if _summary(path).state == "finished":
            continue
        LOGGER.info("Run %s of %s: %s", number, len(trials), path)
        arguments = ["train", "--resume", str(path)]
        if not is_run(path):
            given = {"--run": [str(path)], "--text": paths, "--set": settings}
            given["--config"] = [str(config)] if config else []
            given["--base"] = [] if base is None else [str(base)]
            options = (part for name, each in given.items() for v in each for part in (name, v))
            arguments = ["train", *options]
        # In a process of its own: if it runs out of memory, for example, the others are still trained.
        (status,) = launch(arguments, 1)
        if status == INTERRUPTED:
            LOGGER.info("The same command continues the sweep.")
            raise Interrupted
        if status:
            LOGGER.warning("%s: failed; the sweep goes on", path)
    runs = sorted(map(_summary, trials), key=_score)
    if found := [run.path for run in runs if is_run(run.path)]:
        write_report(found, output / REPORT_FILE)
        LOGGER.info("Wrote %s", output / REPORT_FILE)
    return runs


def _summary(path: Path) -> RunSummary:
    return list_runs(path)[0] if is_run(path) else RunSummary(path, path.name, state="failed")


def _score(run: RunSummary) -> float:
    score = run.bits_per_byte or run.val_loss
    return score if score and run.state == "finished" else math.inf


def _trials(
    values: Mapping[str, Sequence[Any]],
    config: str | Path | None,
    output: Path,
    text: list[str],
    base: str | Path | None = None,
) -> dict[Path, list[str]]:
    """Returns the run directory of each combination of values, and its settings; checks all of them."""
    problems: list[str] = []
    if not values or not all(values.values()):
        problem = "should name at least one setting, each with at least one value"
        problems.append(ArgumentProblem("values", values, problem))
    with gathering(problems):
        # A folder of runs may exist.
        if is_run(output) or not output.is_dir():
            check_new_run(output, "output")
    found: dict[Path, list[str]] = {}
    for chosen in itertools.product(*values.values()):
        settings = {name: _written(value) for name, value in zip(values, chosen, strict=True)}
        # Also those with a single value, so that values can be added later.
        named = ",".join(f"{n.partition('.')[2]}={v}" for n, v in settings.items())
        path = output / (re.sub(r"[^\w.,=+-]", "_", named)[:200] or "run")
        if path in found:
            problems.append(f"{path}: two runs have this name; is a value given twice?")
        found[path] = [f"{name}={value}" for name, value in settings.items()]
        with gathering(problems):
            checked = load_new_config(config, found[path], text, base)
            problems += _changes(checked, Run(path)) if is_run(path) else ()
            if checked.training.init_from not in (None, AUTO):
                run_or_file(checked.training.init_from, "training.init_from")
            # Opening a data set would copy it.
            if checked.data.source != "datasets":
                problems += getattr(open_source(checked.data), "problems", [])
    if problems:
        raise UserError(*dict.fromkeys(problems))
    return found


def _written(value: Any) -> str:
    """Returns a value as the text of an override."""
    is_plain = value is None or (isinstance(value, str) and re.fullmatch(r"[\w.+-]*", value))
    return str(value).replace("None", "none") if is_plain else json.dumps(value)


def _changes(config: Config, run: Run) -> list[str]:
    """Returns a line for each given setting with which a run was not started."""
    old, new = run.config.settings(), config.settings(exclude_unset=True)
    if (new.get("data.source"), old["data.source"]) == ("files", "dialogues"):
        # Chats were recognized.
        del new["data.source"], new["data.paths"]
    # A run records what "auto" has chosen, and an absolute path.
    if (start := new.pop("training.init_from", AUTO)) != AUTO:
        is_path = start is not None and start not in bases()
        new["training.init_from"] = str(Path(start).absolute()) if is_path else start
    return [
        f"{run.path}: was started with {name} = {old.get(name)!r}, not {value!r}"
        for name, value in new.items()
        if value not in (None, old.get(name)) and name != "training.step_limits"
    ]
