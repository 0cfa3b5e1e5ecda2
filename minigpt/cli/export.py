"""`minigpt export` and `verify`: write a model for other programs, and compare it with its run."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import minigpt
from minigpt.cli.command import JsonOption, ModelArgument, command
from minigpt.cli.terminal import print_json, print_message
from minigpt.errors import ArgumentProblem, UserError
from minigpt.runs.layout import bases, check_run
from minigpt.targets.export import check_output, new_output
from minigpt.targets.open_model import is_portable
from minigpt.targets.targets import STORED, TARGETS, target_named

# Their modules import no TensorFlow.
WITH_WEIGHTS = [name for name in TARGETS if len(target_named(name).weights) > 1]
THEIR_NAMES = f"{', '.join(WITH_WEIGHTS[:-1])} and {WITH_WEIGHTS[-1]}"
# mypy reads only literal members.
Format = StrEnum("Format", {name: name for name in TARGETS})  # type: ignore[misc]
Weights = StrEnum("Weights", {name: name for name in STORED})  # type: ignore[misc]
DEFAULT = Format("saved_model")


@command({"run": "RUN", "output": "--output", "format": "--format"})
def export(
    run: ModelArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="New directory for saved_model, huggingface, onnx and transformers_js; a new file for "
            "the others. Default: RUN.FORMAT, such as english.html.",
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="Format to write.")] = DEFAULT,
    weights: Annotated[
        Weights | None,
        typer.Option(help=f"For {THEIR_NAMES}: how weights are stored. Default: float32."),
    ] = None,
    with_text: Annotated[
        bool,
        typer.Option(
            "--with-text",
            help="For html: the page contains the whole training text, and shows where it has what the "
            "model writes.",
        ),
    ] = False,
) -> None:
    """Export a run's best model for other programs, and check it against the run.

    The page of a file in place of a run is without what its run knows.
    """
    stem = run.stem if run.is_file() else run.resolve().name
    output = output or Path(f"{stem}.{format.value}")
    if is_file := is_portable(run):
        if with_text or (weights and format.value == "html"):
            problem = "is a file; its run is needed for --with-text and the --weights of a page"
            name = next((name for name, file in bases().items() if file == run), run)
            raise UserError(ArgumentProblem("run", name, problem))
    else:
        check_run(run, any_model=True)
    if is_file and format.value == "html":
        from minigpt.targets.html.file_page import write_file_page

        with new_output(output, False) as unfinished:
            write_file_page(run, unfinished)
        print(f"Wrote {output}")
        return
    if weights is not None and format not in WITH_WEIGHTS:
        raise UserError(
            f"--weights {weights.value}: has an effect only with --format {THEIR_NAMES}"
        )
    # Both before TensorFlow is imported.
    source = run if is_file else minigpt.Run(run)
    check_output(output, target_named(format).is_folder)
    kind = weights.value if weights else "float32"
    certificate = minigpt.export_run(
        source, format.value, output, weights=kind, certificate=True, with_text=with_text
    )
    assert certificate
    print("Compared with the source:")
    print_certificate(certificate)
    print(f"Wrote {output}" + (", which contains the training text" if with_text else ""))
    if format.value == "html":
        print(f"Open it in a browser: {output.resolve().as_uri()}")


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


def print_certificate(certificate: dict[str, Any]) -> None:
    """Prints what was compared, in a few lines."""
    logits, bits = certificate["logits"], certificate["bits_per_byte"]
    greedy, tokenizer = certificate["greedy"], certificate["tokenizer"]
    rows = {"Text": certificate["text"]}
    if logits:
        rows["Text"] = f"the first {logits['tokens']:,} tokens: {certificate['text']}"
    if logits and logits["largest_difference"] is None:
        rows["Logits"] = "are nan or infinite"
    elif logits:
        rows["Logits"] = (
            f"differ by at most {logits['largest_difference']:.2g} over {logits['tokens']:,} tokens; the "
            f"largest is {logits['largest_of_source']:.3g}"
        )
        rows["Bits per byte"] = f"{bits['export']:.4f}; of the source {bits['source']:.4f}"
    rows |= {
        "Greedy texts": f"{greedy['same_texts']} of {greedy['prompts']} are the same",
        "Tokenizer": f"{tokenizer['same']:,} of {tokenizer['lines']:,} lines have the same tokens",
        "Size": f"{certificate['bytes'] / 1e6:.1f} MB",
        "Speed": f"{certificate['tokens_per_second']:,.0f} tokens/s, one text at a time",
    }
    for name, value in rows.items():
        print(f"{name:14}{value}")
