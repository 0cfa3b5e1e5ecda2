"""`minigpt export`: writes a model for other programs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import minigpt
from minigpt.cli.certificates import print_certificate
from minigpt.cli.command import command
from minigpt.cli.options import RunArgument
from minigpt.errors import UserError
from minigpt.targets.formats import FORMATS
from minigpt.targets.output import check_output


class Format(StrEnum):
    saved_model = "saved_model"
    keras = "keras"
    huggingface = "huggingface"
    gguf = "gguf"
    html = "html"
    litert = "litert"
    onnx = "onnx"
    transformers_js = "transformers_js"


WITH_WEIGHTS = [format for format in Format if len(FORMATS[format].weights) > 1]


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
            metavar="PATH",
            help="New directory for saved_model, huggingface, onnx and transformers_js; a new file for "
            "the others.",
        ),
    ],
    format: Annotated[Format, typer.Option(help="Format to write.")] = Format.saved_model,
    weights: Annotated[
        Weights | None,
        typer.Option(
            help="For gguf, html, litert, onnx and transformers_js: how weights are stored. Default: "
            "float32."
        ),
    ] = None,
) -> None:
    """Export a run's best model for other programs, and check it against the run."""
    if weights is not None and format not in WITH_WEIGHTS:
        names = ", ".join(WITH_WEIGHTS[:-1])
        raise UserError(
            f"--weights {weights.value}: has an effect only with --format {names} or {WITH_WEIGHTS[-1]}"
        )
    # Both before TensorFlow is imported.
    source = minigpt.Run(run)
    check_output(output, FORMATS[format].is_folder)
    kind = (weights or Weights.float32).value
    certificate = minigpt.export_run(source, format.value, output, weights=kind, certificate=True)
    assert certificate
    print(f"Wrote {output}")
    print_certificate(certificate)
