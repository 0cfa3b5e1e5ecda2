"""`minigpt doctor`: says what is wrong with a run."""

from typing import Annotated

import typer

import minigpt
from minigpt.cli.command import RunArgument, command, program_name
from minigpt.cli.output import print_json, print_text
from minigpt.runs.analysis import runnable


@command({"run": "RUN"})
def doctor(
    run: RunArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    sweep: Annotated[
        bool, typer.Option(help="Try other learning rates in short runs, a minute or two.")
    ] = True,
) -> None:
    """Examine a run: what is wrong with it, and what to do."""
    found = minigpt.examine(run, sweep=sweep)
    actions = [runnable(verdict.action, run, program_name()) for verdict in found]
    if as_json:
        verdicts = zip(found, actions, strict=True)
        print_json(
            {"verdicts": [found.as_dict() | {"action": action} for found, action in verdicts]}
        )
        return
    if not found:
        print("No problems found.")
    for verdict, action in zip(found, actions, strict=True):
        print_text(f"{verdict.title}\n  {verdict.evidence}\n  {action}")
