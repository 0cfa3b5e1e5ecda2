"""Shared code of the commands: options, their names in error messages, notices, runs of the right kind."""

import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from minigpt.cli.terminal import print_message
from minigpt.environment import program_name
from minigpt.errors import ArgumentProblem, UserError
from minigpt.notices import notices_to

P = ParamSpec("P")
R = TypeVar("R")


def given_path(text: str) -> Path:
    """Returns the path in an argument. An empty one, of a variable that is not set, is refused."""
    if not text:
        raise ValueError("should be a path; the current folder is .")
    return Path(text)


RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", parser=given_path, help="Run directory.")
]
ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", parser=given_path, help="Run directory, or a file: model.gguf or a page."
    ),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="Print whether the engine or TensorFlow runs the model.")
]
AdapterOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Add an adapter of export --adapter to the model of the run."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
TextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="PATH",
        help="File (.txt, .md, .jsonl, .csv, .tsv, .parquet, .arrow; .gz, .zst), folder, glob, or - for "
        "standard input. Repeatable.",
    ),
]


def command(options: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a command: its errors name options, and messages go to standard error.

    Args:
      options: Python argument → option, for arguments of the functions that the command calls.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        return naming_options(options)(messages_to_stderr()(function))

    return decorate


@contextmanager
def naming_options(options: Mapping[str, str]) -> Iterator[None]:
    """Replaces Python arguments by options in the problems of a `UserError`."""
    try:
        yield
    except UserError as error:
        raise UserError(*(_as_option(problem, options) for problem in error.problems)) from None


def _as_option(problem: str, options: Mapping[str, str]) -> str:
    if isinstance(problem, ArgumentProblem):
        problem = problem.as_option(options)
    names = "|".join(map(re.escape, options))
    # "top_k = -1: ..." or "sampling.top_k = -1: ..."; a setting of another section stays.
    argument = rf"(?<![\w.-])(?:sampling\.)?({names})(?:\[\d+\])?(?: = |: (?=\d))"
    return re.sub(argument, lambda match: f"{options[match[1]]} ", problem)


@contextmanager
def messages_to_stderr() -> Iterator[None]:
    """Prints the library's log messages and warnings on standard error, one per line."""
    with notices_to(print_message), warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        show = warnings.showwarning

        def show_message(message: Any, category: type[Warning], *args: Any, **kwargs: Any) -> None:
            if category is UserWarning:
                print_message(str(message))
            else:
                show(message, category, *args, **kwargs)

        warnings.showwarning = show_message
        yield


def check_kind(path: Path, found: str, needed: str) -> None:
    """Raises a `UserError` if the model at `path` is not of the kind that the command needs."""
    if found != needed:
        problem, other = {
            "gpt": ("is a translation model", "translate"),
            "encoder_decoder": ("is not a translation model", "sample"),
        }[needed]
        use = f"{program_name()} {other} {shlex.quote(str(path))}"
        raise UserError(ArgumentProblem("run", path, f"{problem}; use: {use}"))
