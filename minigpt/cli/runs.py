"""`minigpt runs`, `configs` and `import`: lists runs and configurations, and imports a run."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.cells import cell_len, set_cell_size

import minigpt
from minigpt.cli.command import JsonOption, command, given_path
from minigpt.cli.terminal import print_json
from minigpt.config import shipped_configs
from minigpt.environment import program_name
from minigpt.training.console import duration

HEADINGS = ("name", "text", "parameters", "bits/byte", "time", "state")
_RIGHT_ALIGNED = {2, 3, 4}
_UNKNOWN = "–"


@command({"folder": "FOLDER"})
def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", parser=given_path, help="Folder of runs, or a run.")
    ] = Path("runs"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON array with an object for each run.")
    ] = False,
) -> None:
    """List the runs of a folder by name: text, parameters, best epoch's bits per byte, time, state."""
    found = minigpt.list_runs(folder)
    if as_json:
        print_json([run.as_dict() for run in found])
    elif found:
        print_table([HEADINGS, *map(row_of, found)])
    else:
        print(f"{one_line(str(folder))}: contains no runs")


def row_of(run: "minigpt.RunSummary") -> tuple[str, ...]:
    if run.bits_per_byte is not None:
        score = f"{run.bits_per_byte:.4g}"
    else:
        # The tokenizer loses part of the text, so only the loss is known.
        score = _UNKNOWN if run.val_loss is None else f"loss {run.val_loss:.4g}"
    return (
        run.name,
        _UNKNOWN if run.text is None else run.text,
        _UNKNOWN if run.parameters is None else f"{run.parameters:,}",
        score,
        _UNKNOWN if run.seconds is None else duration(run.seconds),
        run.state,
    )


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Prints rows in columns."""
    rows = [tuple(map(one_line, row)) for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            " " * (width - cell_len(cell)) + cell
            if column in _RIGHT_ALIGNED
            else set_cell_size(cell, width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def one_line(text: str) -> str:
    """Returns a text with escapes for all characters that could change how a line is shown.

    Among them are newlines, and the characters that change the direction of writing.
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@command({})
def configs(as_json: JsonOption = False) -> None:
    """List the shipped configurations."""
    for name, path in shipped_configs().items():
        with path.open(encoding="utf-8") as lines:
            description = next(lines).lstrip("# ").strip()
        if as_json:
            print_json({"name": name, "description": description})
        else:
            print(f"{name:<24}{description}")


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
