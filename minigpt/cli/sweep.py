"""`minigpt sweep`: trains a run for each combination of values of settings, and compares them."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

import minigpt
from minigpt.cli.command import BaseOption, TextOption, given_path, naming_options
from minigpt.cli.runs import HEADINGS, print_table, row_of
from minigpt.cli.terminal import print_text
from minigpt.cli.train import NEW_RUN, OVERRIDES
from minigpt.errors import UserError
from minigpt.notices import notices_to


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
    base: BaseOption = None,
) -> None:
    """Train a run for each combination of values, and compare the runs.

    The same command continues a sweep that was interrupted. A value with a comma is quoted: "a, b".
    """
    values: dict[str, list[Any]] = {}
    for override in overrides:
        name, _, listed = override.partition("=")
        if name in values:
            raise UserError(f"--set {override}: {name} is given twice; should have one list")
        values[name] = _values(listed)
    options = NEW_RUN | OVERRIDES | {"output": "--output"}
    with naming_options(options), notices_to(print_text):
        runs = minigpt.sweep(values, config, output=output, text=text or [], base=base)
    print_table([HEADINGS, *map(row_of, runs)])
    raise typer.Exit(any(run.state != "finished" for run in runs))


def _values(listed: str) -> list[Any]:
    """Returns the values in a list of TOML without its brackets, or of plain texts."""
    try:
        return tomllib.loads(f"_ = [{listed}]")["_"] or [""]
    except ValueError:
        return listed.split(",")
