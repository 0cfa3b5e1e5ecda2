"""`minigpt export`: writes a model for other programs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import minigpt
from minigpt.cli.command import command
from minigpt.cli.options import RunArgument
from minigpt.errors import UserError


class Format(StrEnum):
    saved_model = "saved_model"
    keras = "keras"
    huggingface = "huggingface"
    gguf = "gguf"


class Weights(StrEnum):
    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


@command({"run": "RUN", "output": "--output", "format": "--format"})
def export(
    run: RunArgument,
    output: Annotated[
        Path,
        typer.Option(metavar="PATH", help="New directory for the model; for gguf, a new file."),
    ],
    format: Annotated[Format, typer.Option(help="Format to write.")] = Format.saved_model,
    weights: Annotated[
        Weights | None, typer.Option(help="For gguf: how weights are stored. Default: float32.")
    ] = None,
) -> None:
    """Export a run's best model for other programs."""
    if format == Format.gguf:
        # `export_run` would import TensorFlow, and this is not needed by other commands.
        from minigpt.portable.exporting import export_portable

        export_portable(minigpt.Run(run), output, (weights or Weights.float32).value)
    elif weights is None:
        minigpt.export_run(minigpt.Run(run), format.value, output)
    else:
        raise UserError(f"--weights {weights.value}: has an effect only with --format gguf")
    print(f"Wrote {output}")
