"""`minigpt sweep`: trains a run for each combination of values of settings, and compares them."""

import itertools
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Annotated

import typer

import minigpt
from minigpt.cli.command import TextOption, command, given_path
from minigpt.cli.runs import HEADINGS, print_table, row_of
from minigpt.cli.terminal import print_message, print_text
from minigpt.cli.train import NEW_RUN, OVERRIDES, new_settings
from minigpt.config import Config
from minigpt.corpus.text_files import TextFiles
from minigpt.distribution.launch import launch
from minigpt.errors import UserError, gathering
from minigpt.insight.report.report import REPORT_FILE, write_report
from minigpt.interrupts import INTERRUPTED, Interrupted
from minigpt.runs.run import Run


@command(NEW_RUN | OVERRIDES)
def sweep(
    overrides: Annotated[
        list[str],
        typer.Option("--set", metavar="SECTION.KEY=VALUE,...", help="A setting and its values."),
    ],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=given_path, help="Folder of the runs.")
    ],
    config: Annotated[str | None, typer.Option(metavar="FILE", help="As for `train`.")] = None,
    text: TextOption = None,
) -> None:
    """Train a run for each combination of values, and compare the runs.

    The same command continues a sweep that was interrupted. A value with a comma is quoted: "a, b".
    """
    text = [str(Path(path).absolute()) for path in text or []]
    if text:
        TextFiles(text).check_found()
    trials = combinations(config, text, overrides, output)
    failed = False
    for number, (path, settings) in enumerate(trials.items(), 1):
        print_text(f"Run {number} of {len(trials)}: {path}")
        arguments = ["train", "--run", str(path), *(["--config", config] if config else [])]
        arguments += [part for each in text for part in ("--text", each)]
        arguments += [part for each in settings for part in ("--set", each)]
        if _exists(path):
            if minigpt.list_runs(path)[0].state == "finished":
                continue
            arguments = ["train", "--resume", str(path)]
        # In a process of its own: if it runs out of memory, for example, the others are still trained.
        (status,) = launch(arguments, 1)
        if status == INTERRUPTED:
            print_message("The same command continues the sweep.")
            raise Interrupted
        if status:
            failed = True
            print_message(f"{path}: failed; the sweep goes on")
    found = [minigpt.list_runs(path)[0] for path in trials if _exists(path)]
    found.sort(key=lambda run: run.bits_per_byte or run.val_loss or math.inf)
    if found:
        print_table([HEADINGS, *map(row_of, found)])
        write_report([run.path for run in found], output / REPORT_FILE)
        print_text(f"Wrote {output / REPORT_FILE}")
    if failed:
        raise typer.Exit(1)


def combinations(
    config: str | None, text: list[str], overrides: list[str], output: Path
) -> dict[Path, list[str]]:
    """Returns the run directory of each combination of values, and its settings.

    Raises:
      UserError: a setting cannot be used, or a run was started with others.
    """
    values: dict[str, list[str]] = {}
    found: dict[Path, list[str]] = {}
    problems: list[str] = []
    for override in overrides:
        name, _, listed = override.partition("=")
        if name in values:
            problems.append(f"--set {override}: {name} is given twice; should have one list")
        values[name] = _values(listed)
    for chosen in itertools.product(*values.values()):
        settings = [f"{name}={value}" for name, value in zip(values, chosen, strict=True)]
        varied = [s.partition(".")[2] for s in settings if len(values[s.partition("=")[0]]) > 1]
        path = output / (re.sub(r"[^\w.,=+-]", "_", ",".join(varied))[:200] or "run")
        found[path] = settings
        with gathering(problems):
            checked = new_settings(config, text, None, settings)
            problems += _changes(checked, Run(path)) if _exists(path) else ()
    if len(found) < math.prod(map(len, values.values())):
        problems.append("--set: a value is given twice, or two differ only in signs like / and :")
    if problems:
        raise UserError(*dict.fromkeys(problems))
    return found


def _values(listed: str) -> list[str]:
    """Returns the values in a list of TOML without its brackets, or of plain texts."""
    try:
        return [json.dumps(value) for value in tomllib.loads(f"_ = [{listed}]")["_"]] or [""]
    except (ValueError, TypeError):
        return listed.split(",")


def _exists(path: Path) -> bool:
    return (path / "config.toml").is_file()


def _changes(config: Config, run: Run) -> list[str]:
    """Returns a line for each given setting with which a run was not started."""
    old, new, given = (
        run.config.settings(),
        config.settings(),
        config.model_dump(exclude_unset=True),
    )
    names = [f"{section}.{key}" for section, keys in given.items() for key in keys]
    return [
        f"{run.path}: was started with {name} = {old.get(name)!r}, not {new[name]!r}"
        for name in names
        if new[name] not in (None, old.get(name)) and name != "training.step_limits"
    ]
