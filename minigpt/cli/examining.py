"""`minigpt evaluate`, `doctor`, `memorized` and `report`: how good a run is."""

from pathlib import Path
from typing import Annotated

import typer

import minigpt
from minigpt.cli import command
from minigpt.cli.terminal import print_json
from minigpt.environment import program_name
from minigpt.errors import ArgumentProblem, UserError
from minigpt.insight.doctor import figures
from minigpt.insight.history import read_history
from minigpt.insight.report.report import REPORT_FILE, write_report
from minigpt.insight.verbatim import MIN_CHARACTERS, MIN_WORDS
from minigpt.runs.analysis import COPIED, TITLES
from minigpt.runs.run import Run
from minigpt.training.console import new_console, show


@command.command({"run": "RUN", "text": "--text", "stride": "--stride"})
def evaluate(
    run: command.ModelArgument,
    text: command.TextOption = None,
    stride: Annotated[
        int | None,
        typer.Option(
            "--stride",
            metavar="N",
            help="Tokens between two windows of the text, which then overlap. Without it, they are "
            "adjacent.",
        ),
    ] = None,
    as_json: command.JsonOption = False,
) -> None:
    """Score a model on its validation text, or on other text.

    Lower scores are better. docs/words.md explains loss, nats, perplexity and bits per byte.
    """
    scores = minigpt.evaluate_run(run, text, stride=stride)
    if as_json:
        print_json(scores.as_dict())
        return
    pairs = isinstance(scores, minigpt.PairEvaluation)
    bits = "–" if scores.bits_per_byte is None else f"{scores.bits_per_byte:.4f}"
    line = (
        f"loss {scores.loss:.4f} nats per {'target ' * pairs}token, "
        f"perplexity {scores.perplexity:.4g}, {bits} bits per byte, "
        f"over {scores.tokens:,} tokens of {scores.bytes:,} bytes"
    )
    if isinstance(scores, minigpt.PairEvaluation):
        bleu = "–" if scores.bleu is None else f"{scores.bleu:.2f}"
        beams = f"{scores.beams} beam{'s' * (scores.beams > 1)}"
        line += f"; BLEU {bleu} with {beams}, over {scores.pairs:,} pairs"
    show(new_console(), line)


@command.command({"run": "RUN"})
def doctor(
    run: command.RunArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Examine a run: what is wrong with it, and what to do."""
    found = [(each, each.runnable_action(run, program_name())) for each in minigpt.examine(run)]
    if as_json:
        print_json({"verdicts": [each.as_dict() | {"action": action} for each, action in found]})
        return
    if not found:
        print("No problems found.")
    console = new_console()
    for verdict, action in found:
        lines = filter(None, (verdict.title, verdict.evidence, action))
        show(console, "\n  ".join(lines), indent=2)
    show(console, "\n".join(figures(read_history(minigpt.Run(run)))), indent=2)


@command.command({"run": "RUN", "state": "--state"})
def memorized(
    run: command.RunArgument,
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE", help="best: the model that is exported; last: after the last step."
        ),
    ] = "best",
    tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of tokens to sample.")
    ] = 12_800,
    as_json: command.JsonOption = False,
) -> None:
    """Measure how much of a model's samples is copied verbatim from its training text."""
    found = minigpt.measure_memorization(minigpt.Run(run), state, tokens=tokens)
    if as_json:
        print_json(found.as_dict())
    else:
        passages = f"passages of at least {MIN_WORDS} words and {MIN_CHARACTERS} characters"
        measured = f"{found.in_words()} {found.tokens:,} tokens, {passages}, exactly the same."
        under = f"The model has not memorized: the difference is below {100 * COPIED:.0f} points"
        verdict = f"{TITLES['memorized'] if found.has_memorized else under} (state: {state})."
        show(new_console(), f"{measured}\n{verdict}")


@command.command({"run": "RUN", "output": "--output"})
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", parser=command.given_path, help="Run directory; several are compared."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="New file for the report. Default, for one run: report.html in its directory.",
        ),
    ] = None,
) -> None:
    """Write the report of a run, or compare several, as a web page."""
    opened = [Run(path) for path in runs]
    if output is None:
        if len(opened) > 1:
            raise UserError("--output: should be given with several runs, as a new file")
        output = opened[0].path / REPORT_FILE
    own = len(opened) == 1 and output.resolve() == opened[0].report_file.resolve()
    if output.exists() and not own:
        raise UserError(ArgumentProblem("output", output, "exists; should be a new file"))
    write_report(opened, output)
    print(f"Wrote {output}")
