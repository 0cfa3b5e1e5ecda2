"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run directory, or a portable file: model.gguf.")
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="Print whether the engine or TensorFlow runs the model.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
TextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="PATH",
        help="Text file, folder of *.txt files, or glob; .gz is read too. Repeatable.",
    ),
]
