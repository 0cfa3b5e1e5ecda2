"""`minigpt import`: creates a run from a Hugging Face folder."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

import minigpt
from minigpt.cli.command import command, program_name


@command({"folder": "FOLDER", "run": "--run"})
def import_run(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Hugging Face folder of a GPT-2 or a Qwen3.")
    ],
    run: Annotated[Path, typer.Option(metavar="DIR", help="New run directory.")],
) -> None:
    """Import a GPT-2 or a Qwen3 in Hugging Face's format as a run."""
    imported = minigpt.import_run(folder, run)
    path = shlex.quote(str(imported.path))
    print(f"Wrote {imported.path}. Sample from it with: {program_name()} sample {path}")
