"""`minigpt memorized`: how much of what a model writes is copied from its training text."""

from typing import Annotated

import typer

import minigpt
from minigpt.cli.command import JsonOption, RunArgument, command
from minigpt.cli.output import print_json, print_text
from minigpt.insight.verbatim import MIN_CHARACTERS, MIN_WORDS

# A larger difference between the two shares is more than chance.
NOTICEABLE = 0.05
MEANINGS = {
    False: "The model copies about as much as held-out text does: it has not memorized its text.",
    True: "The model copies more than held-out text does: it has memorized passages.",
}

StateOption = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="STATE",
        help="best: the model that is exported; last: after the last step.",
    ),
]
TokensOption = Annotated[
    int, typer.Option("--tokens", metavar="N", min=1, help="Number of tokens to sample.")
]


@command({"run": "RUN", "state": "--state"})
def memorized(
    run: RunArgument,
    state: StateOption = "best",
    tokens: TokensOption = 12_800,
    as_json: JsonOption = False,
) -> None:
    """Measure how much of a model's samples is copied verbatim from its training text."""
    found = minigpt.measure_memorization(minigpt.Run(run), state, tokens=tokens)
    if as_json:
        print_json(found.as_dict())
    else:
        print_text("\n".join(_lines(found)))


def _lines(found: "minigpt.Memorization") -> list[str]:
    """Describes a measurement in words."""
    lines = [
        f"{found.share:.1%} of the {found.tokens:,} tokens that the model wrote are copied: they are in "
        f"passages of at least {MIN_WORDS} words and {MIN_CHARACTERS} characters that are in the training "
        "text, character for character.",
        f"For comparison, {found.held_out_share:.1%} of the same amount of held-out text is in such "
        "passages.",
    ]
    if (longest := found.longest) is not None:
        lines += [
            f"The longest copied passage has {longest.words:,} words, from {longest.description}:",
            f"    {longest.text!r}",
        ]
    lines.append(MEANINGS[found.share - found.held_out_share > NOTICEABLE])
    return lines
