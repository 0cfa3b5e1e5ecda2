"""`minigpt doctor`: says what is wrong with a training."""

from typing import Annotated

import typer

import minigpt
from minigpt.cli.command import command
from minigpt.cli.options import RunArgument
from minigpt.cli.output import print_json


@command({"run": "RUN"})
def doctor(
    run: RunArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    sweep: Annotated[
        bool, typer.Option(help="Try other learning rates in short trainings, a minute or two.")
    ] = True,
) -> None:
    """Examine a training: what is wrong with it, and what to do."""
    found = minigpt.examine(run, sweep=sweep)
    if as_json:
        print_json({"verdicts": [verdict.as_dict() for verdict in found]})
        return
    if not found:
        print("No problems found.")
    for verdict in found:
        print(f"{verdict.title}\n  {verdict.evidence}\n  {verdict.action}")
