"""Sweeps: settings are tried one after the other, and their losses compared.

`sweep` tries the points of a grid, each as a run. The doctor tries learning rates in short runs, and
chooses the next one by the losses so far: see `learning_rates`.
"""

import itertools
import json
import logging
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from minigpt.config import Config
from minigpt.config.loading import check_text, load_new_config
from minigpt.corpus.sources import open_source
from minigpt.corpus.text_files import TextFiles, recorded_path
from minigpt.distribution.launch import launch
from minigpt.errors import ArgumentProblem, UserError, as_path, gathering
from minigpt.insight.report.report import REPORT_FILE, write_report
from minigpt.insight.run_list import RunSummary, list_runs
from minigpt.interrupts import INTERRUPTED, Interrupted
from minigpt.runs.layout import check_new_run
from minigpt.runs.run import Run

Setting = TypeVar("Setting", bound=Hashable)

logger = logging.getLogger(__name__)


def try_settings(
    propose: Callable[[Mapping[Setting, float]], Iterable[Setting]],
    loss: Callable[[Setting], float],
    report: Callable[[Setting, float], object] = lambda setting, loss: None,
    kept: Mapping[Setting, float] = {},
) -> dict[Setting, float]:
    """Tries settings one after the other.

    Args:
      propose: yields what to try; called with the losses so far, which grow meanwhile.
      loss: trains with a setting and returns its loss; nan or inf if training fails.
      report: called with each setting and its loss as soon as it is known.
      kept: losses of an earlier call; these settings are not trained again.
    Returns:
      Settings and their losses, the best first; inf for those that failed.
    """
    losses: dict[Setting, float] = {}
    for setting in propose(losses):
        found = kept[setting] if setting in kept else loss(setting)
        losses[setting] = found if math.isfinite(found) else math.inf
        report(setting, losses[setting])
    return dict(sorted(losses.items(), key=lambda item: item[1]))


def sweep(
    values: Mapping[str, Sequence[Any]],
    config: str | Path | None = None,
    *,
    output: str | Path,
    text: Sequence[str | Path] = (),
) -> list[RunSummary]:
    """Trains a run for each combination of values of settings, and compares them in a report.

    Each run is trained by a process of its own, which prints as `minigpt train` does. The same call
    continues a sweep that was interrupted: finished runs are kept, the others are resumed. Progress goes
    through `logging`.

    Args:
      values: setting → its values, such as `{"training.learning_rate": [1e-3, 4e-3]}`.
      config: a path or the name of a shipped configuration. None for the default configuration, or, with
        `text`, for settings that suit it.
      output: the folder of the runs, which have the names of their values, and of report.html.
      text: paths for `data.paths`.
    Returns:
      The runs, the best first: by bits per byte, or by the validation loss if the tokenizer loses part of
      the text. The state of those that did not end is not "finished"; they are last.
    Raises:
      UserError: with all problems of the settings, because a run was started with others, or because
        `output` is a run or a file. Nothing is trained.
      TypeError: an argument has the wrong type.
      KeyboardInterrupt: after Ctrl-C, with the state saved.
    """
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        expected = "a mapping from settings to lists of values"
        raise TypeError(f"`values` must be {expected}. Received: {values!r}")
    for name, listed in values.items():
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            raise TypeError(f"`values[{name!r}]` must be a list of values. Received: {listed!r}")
    check_text(text)
    output = as_path("output", output)
    paths = [recorded_path(str(path)) for path in text]
    trials = _trials(values, config, output, paths)
    order = {path: number for number, path in enumerate(trials, 1)}

    def train(path: Path) -> float:
        logger.info("Run %s of %s: %s", order[path], len(trials), path)
        arguments = ["train", "--resume", str(path)]
        if not _exists(path):
            arguments = [
                "train",
                "--run",
                str(path),
                *(["--config", str(config)] if config else []),
            ]
            arguments += [part for each in paths for part in ("--text", each)]
            arguments += [part for each in trials[path] for part in ("--set", each)]
        # In a process of its own: if it runs out of memory, for example, the others are still trained.
        (status,) = launch(arguments, 1)
        if status == INTERRUPTED:
            logger.info("The same command continues the sweep.")
            raise Interrupted
        return math.inf if status else _score(path)

    def report(path: Path, loss: float) -> None:
        if math.isinf(loss):
            logger.warning("%s: failed; the sweep goes on", path)

    kept = {path: _score(path) for path in trials if _summary(path).state == "finished"}
    runs = [_summary(path) for path in try_settings(lambda _: trials, train, report, kept)]
    if found := [run.path for run in runs if _exists(run.path)]:
        write_report(found, output / REPORT_FILE)
        logger.info("Wrote %s", output / REPORT_FILE)
    return runs


def _trials(
    values: Mapping[str, Sequence[Any]], config: str | Path | None, output: Path, text: list[str]
) -> dict[Path, list[str]]:
    """Returns the run directory of each combination of values, and its settings.

    Raises:
      UserError: a setting cannot be used, or a run was started with others.
    """
    problems = [f"{n} = []: should have at least one value" for n, v in values.items() if not v]
    if not values:
        problems.append(ArgumentProblem("values", values, "should name at least one setting"))
    with gathering(problems):
        # A folder of runs may exist.
        if _exists(output) or not output.is_dir():
            check_new_run(output, "output")
    with gathering(problems):
        if text:
            TextFiles(text).check_found()
    found: dict[Path, list[str]] = {}
    for chosen in itertools.product(*values.values()):
        settings = {name: _written(value) for name, value in zip(values, chosen, strict=True)}
        # Those with a single value too, so that values can be added later.
        named = ",".join(f"{n.partition('.')[2]}={v}" for n, v in settings.items())
        path = output / (re.sub(r"[^\w.,=+-]", "_", named)[:200] or "run")
        if path in found:
            problems.append(
                f"{path}: two runs; a value is given twice, or two differ in signs like /"
            )
        found[path] = [f"{name}={value}" for name, value in settings.items()]
        with gathering(problems):
            checked = load_new_config(config, found[path], text)
            problems += _changes(checked, Run(path)) if _exists(path) else ()
            # Opening a data set would copy it.
            files = None if checked.data.source == "datasets" else open_source(checked.data)
            if isinstance(files, TextFiles):
                files.check_found()
    if problems:
        raise UserError(*dict.fromkeys(problems))
    return found


def _written(value: Any) -> str:
    """Returns a value as the text of an override."""
    is_plain = value is None or (isinstance(value, str) and re.fullmatch(r"[\w.+-]*", value))
    return str(value).replace("None", "none") if is_plain else json.dumps(value)


def _exists(path: Path) -> bool:
    return (path / "config.toml").is_file()


def _summary(path: Path) -> RunSummary:
    return list_runs(path)[0] if _exists(path) else RunSummary(path, path.name, state="failed")


def _score(path: Path) -> float:
    run = _summary(path)
    return run.bits_per_byte or run.val_loss or math.inf


def _changes(config: Config, run: Run) -> list[str]:
    """Returns a line for each given setting with which a run was not started."""
    old, new = run.config.settings(), config.settings()
    given = config.model_dump(exclude_unset=True)
    names = [f"{section}.{key}" for section, keys in given.items() for key in keys]
    return [
        f"{run.path}: was started with {name} = {old.get(name)!r}, not {new[name]!r}"
        for name in names
        if new[name] not in (None, old.get(name)) and name != "training.step_limits"
    ]
