"""`minigpt export`: writes a model for other programs."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import minigpt
from minigpt.cli.command import command
from minigpt.cli.options import RunArgument
from minigpt.errors import UserError

if TYPE_CHECKING:
    from minigpt.portable.writing import WeightsType


class Format(StrEnum):
    saved_model = "saved_model"
    keras = "keras"
    huggingface = "huggingface"
    gguf = "gguf"
    html = "html"


class Weights(StrEnum):
    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


@command({"run": "RUN", "output": "--output", "format": "--format"})
def export(
    run: RunArgument,
    output: Annotated[
        Path,
        typer.Option(
            metavar="PATH", help="New directory for the model; for gguf and html, a new file."
        ),
    ],
    format: Annotated[Format, typer.Option(help="Format to write.")] = Format.saved_model,
    weights: Annotated[
        Weights | None,
        typer.Option(help="For gguf and html: how weights are stored. Default: float32."),
    ] = None,
) -> None:
    """Export a run's best model for other programs, or as a web page (html)."""
    kind: WeightsType = (weights or Weights.float32).value
    # `export_run` would import TensorFlow, which these two do not need.
    if format == Format.gguf:
        from minigpt.portable.exporting import export_portable

        export_portable(minigpt.Run(run), output, kind)
    elif format == Format.html:
        from minigpt.pages.model_page import export_page

        export_page(minigpt.Run(run), output, kind)
    elif weights is None:
        minigpt.export_run(minigpt.Run(run), format.value, output)
    else:
        raise UserError(f"--weights {kind}: has an effect only with --format gguf or html")
    print(f"Wrote {output}")
