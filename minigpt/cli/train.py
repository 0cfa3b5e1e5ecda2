"""`minigpt train`: trains a model, or resumes training."""

import json
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import minigpt
from minigpt.cli.command import BaseOption, TextOption, naming_options
from minigpt.cli.terminal import print_json, print_message
from minigpt.config import Config, load_config, shipped_configs
from minigpt.config.loading import as_strings, load_new_config
from minigpt.distribution.cluster import worker_place
from minigpt.environment import program_name
from minigpt.errors import UserError, gathering, naming_arguments
from minigpt.notices import notices_to
from minigpt.runs.layout import check_new_run, check_run, run_name
from minigpt.training.console import new_console, show

NEW_RUN = {"config": "--config", "text": "--text", "run": "--run", "base": "--base"}
RESUMED_RUN = {"run": "--resume", "resume_from": "--resume"}
OVERRIDES = {"overrides": "--set", "changes": "--set", "minutes": "--minutes"}


def train(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="TOML file, or name of a shipped configuration.",
            autocompletion=lambda incomplete: [
                name for name in shipped_configs() if name.startswith(incomplete)
            ],
        ),
    ] = None,
    text: TextOption = None,
    base: BaseOption = None,
    me: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="In a chat, the person who answers. Default: the one with most messages.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Stop after this time; the same as --set training.max_minutes=MINUTES."),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run directory. Default: runs/NAME-N.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting. Repeatable."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Resume this run; --set can change some settings."),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Do not train: print sizes, and estimates of memory and time."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --plan: print the plan as a JSON object.")
    ] = False,
) -> None:
    """Train a model, show samples, export it."""
    if context.args:
        first = context.args[0]
        option = "--config" if first in shipped_configs() else "--text"
        raise UserError(
            f"unexpected argument {first}; try: {program_name()} train {option} {shlex.quote(first)}"
        )
    if as_json and not plan:
        raise UserError("--json: has no effect without --plan")
    if resume and plan:
        raise UserError(f"--plan: is for a new run; cannot be combined with --resume {resume}")
    changes, options = [*as_strings(overrides or [], minutes)], OVERRIDES | {"data.me": "--me"}
    # Messages are part of the training output. The training console prints them as soon as it exists.
    console = new_console()
    with notices_to(print_message if as_json else partial(show, console, indent=2)):
        if resume:
            given = {"--config": config, "--text": text, "--run": run, "--base": base, "--me": me}
            with naming_options(RESUMED_RUN | options), naming_arguments(minutes=minutes):
                _resume(resume, given, changes)
            return
        if me is not None:
            changes.append(f"data.me={json.dumps(me, ensure_ascii=False)}")
        with naming_options(NEW_RUN | options), naming_arguments(minutes=minutes, base=base):
            name = run_name(config, text or [])
            settings = new_settings(config, text or [], run, changes, base)
            # These import TensorFlow, so a wrong option is reported before.
            if not plan:
                minigpt.train(settings, run, name=name, command=program_name())
            else:
                found = minigpt.plan(settings, run, name=name)
                if as_json:
                    print_json(found.as_dict())
                else:
                    show(console, found.in_words(), indent=12)


def new_settings(
    config: str | None,
    text: list[str],
    run: Path | None,
    overrides: list[str],
    base: str | None = None,
) -> Config:
    """Returns the settings of a new run, with all problems of the options in one error."""
    # Imported here because every command imports this module, and these import NumPy.
    from minigpt.corpus.text_files import TextFiles

    problems: list[str] = []
    with gathering(problems):
        settings = load_new_config(config, overrides, text, base)
    with gathering(problems):
        # The first of several workers creates it.
        if run and worker_place()[0] == 0:
            check_new_run(run)
    if problems:
        # A wrong setting should not hide problems of the paths.
        raise UserError(*problems, *TextFiles(text).problems)
    return settings


def _resume(run: Path, new_run_options: Mapping[str, object], overrides: list[str]) -> None:
    problems = [
        f"{option}: is only for a new run; --resume {run} has its own"
        for option, value in new_run_options.items()
        if value
    ]
    with gathering(problems):
        check_run(run)
        load_config(run / "config.toml", overrides)
    if problems:
        raise UserError(*problems)
    minigpt.resume(run, overrides, command=program_name())
