"""`minigpt verify`: compares an exported model with the run it was made from."""

from pathlib import Path
from typing import Annotated, Any

import typer

import minigpt
from minigpt.cli.command import JsonOption, command
from minigpt.cli.terminal import print_json, print_message


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
    if logits and logits["largest_difference"] is None:
        rows["Logits"] = "are nan or infinite"
    elif logits:
        rows["Logits"] = (
            f"differ by at most {logits['largest_difference']:.2g} over {logits['tokens']:,} tokens; the "
            f"largest is {logits['largest_of_source']:.3g}"
        )
        rows["Bits per byte"] = f"{bits['export']:.4f}; of the run {bits['source']:.4f}"
    rows |= {
        "Greedy texts": f"{greedy['same_texts']} of {greedy['prompts']} are the same",
        "Tokenizer": f"{tokenizer['same']:,} of {tokenizer['lines']:,} lines have the same tokens",
        "Size": f"{certificate['bytes'] / 1e6:.1f} MB",
        "Speed": f"{certificate['tokens_per_second']:,.0f} tokens/s, one text at a time",
    }
    for name, value in rows.items():
        print(f"{name:14}{value}")
