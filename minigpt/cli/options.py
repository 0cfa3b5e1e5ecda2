"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
TextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="PATH",
        help="Text file, folder of *.txt files, or glob; .gz is read too. Repeatable.",
    ),
]
