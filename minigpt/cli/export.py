"""`minigpt export`: writes a model for other programs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import minigpt
from minigpt.cli.command import command
from minigpt.cli.options import RunArgument


class Format(StrEnum):
    saved_model = "saved_model"
    keras = "keras"
    huggingface = "huggingface"


@command({"run": "RUN", "output": "--output", "format": "--format"})
def export(
    run: RunArgument,
    output: Annotated[Path, typer.Option(metavar="DIR", help="New directory for the model.")],
    format: Annotated[Format, typer.Option(help="Format to write.")] = Format.saved_model,
) -> None:
    """Export a run's best model for other programs."""
    minigpt.export_run(minigpt.Run(run), format.value, output)
    print(f"Wrote {output}")
