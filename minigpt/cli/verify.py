"""`minigpt verify`: compares an exported model with the run it was made from."""

from pathlib import Path
from typing import Annotated

import typer

import minigpt
from minigpt.cli.certificates import print_certificate
from minigpt.cli.command import command
from minigpt.cli.options import JsonOption
from minigpt.cli.output import print_json, print_message


@command({"path": "FILE", "against": "--against", "run": "--against"})
def verify(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="File or directory that `minigpt export` wrote.")
    ],
    against: Annotated[Path, typer.Option(metavar="RUN", help="The run it was made from.")],
    as_json: JsonOption = False,
) -> None:
    """Compare an exported model, of any format, with the run it was made from.

    The exit status is 1 if it is outside the tolerance of its format.
    """
    certificate = minigpt.verify(path, minigpt.Run(against))
    if as_json:
        print_json(certificate)
    else:
        print_certificate(certificate)
        for problem in certificate["problems"]:
            print_message(f"minigpt: {path}: {problem}")
    raise typer.Exit(1 if certificate["problems"] else 0)
