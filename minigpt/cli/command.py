"""Shared code of the commands: options, their names in error messages, notices, the model to open."""

import inspect
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from minigpt.cli.terminal import print_message
from minigpt.config.sampling import SettingRow, TextSettings
from minigpt.environment import program_name
from minigpt.errors import ArgumentProblem, UserError
from minigpt.notices import notices_to
from minigpt.runs.layout import model_path
from minigpt.targets.open_model import ModelSource

P = ParamSpec("P")
R = TypeVar("R")


def given_path(text: str) -> Path:
    """Returns the path in an argument. An empty one, of a variable that is not set, is refused."""
    if not text:
        raise ValueError("should be a path; the current folder is .")
    return Path(text)


def given_model(text: str) -> Path:
    """Returns the path of a run, of a file, or of the base with this name."""
    return model_path(given_path(text) and text)


RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", parser=given_path, help="Run directory.")
]
ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        parser=given_model,
        help="Run directory, a file (model.gguf or a page), or a base (english).",
    ),
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
        help="File (.txt, .md, .epub, .docx, .odt, .html, .pdf, .ipynb, .srt, .csv, .jsonl, .parquet, .zip "
        "and others), folder, glob, or - for standard input. Repeatable.",
    ),
]

BaseOption = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="BASE",
        help="What training starts from: auto (the base of the package if it helps; the default with "
        "--text alone), none, the name of a base (english), a run, or a portable file.",
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
    argument = rf"(?<![\w.-])(?:--set )?(?:sampling\.)?({names})(?:\[\d+\])?(?: = |: (?=\d))"
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


def model_source(path: Path, needed: str) -> ModelSource:
    """Returns the run or file at a path, whose model is not opened yet.

    Args:
      path: a run directory, a portable file, or a page.
      needed: the kind of model that the command needs.
    Raises:
      UserError: there is none, or the model is of the other kind.
    """
    source = ModelSource(path)
    if source.kind != needed:
        problem, other = {
            "gpt": ("is a translation model", "translate"),
            "encoder_decoder": ("is not a translation model", "sample"),
        }[needed]
        use = f"{program_name()} {other} {shlex.quote(str(path))}"
        raise UserError(ArgumentProblem("run", path, f"{problem}; use: {use}"))
    return source


def model_of(source: ModelSource, settings: TextSettings, verbose: bool, interactive: bool) -> Any:
    """Opens a model; if `interactive`, says so before; with `verbose`, prints what runs it."""
    if interactive:
        print_message(f"Loading {source.path} ...")
    model, reason = source.open(settings), source.reason
    if verbose:
        print_message(f"Running on TensorFlow: {reason}." if reason else "Running on the engine.")
    return model


# Sampling settings whose option has another name.
_NAMES = {"banned_tokens": "ban"}


def names_of_options(settings: Sequence[SettingRow]) -> dict[str, str]:
    """Returns the option of each sampling setting: "top_k" → "--top-k"."""
    return {s.name: "--" + _NAMES.get(s.name, s.name).replace("_", "-") for s in settings}


def with_sampling_options(
    settings: Sequence[SettingRow], before: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a command: its `**given` are the options of sampling settings.

    They arrive as setting → value, without those that are not given.

    Args:
      before: the parameter before which they are listed.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        at = [parameter.name for parameter in own].index(before)
        own[at:at] = map(_parameter, settings)

        def with_options(**arguments: Any) -> None:
            options = {s.name: arguments.pop(_NAMES.get(s.name, s.name)) for s in settings}
            given = {name: value for name, value in options.items() if value is not None}
            function(**arguments, **given)

        with_options.__name__, with_options.__doc__ = function.__name__, function.__doc__
        with_options.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return with_options

    return decorate


def _parameter(setting: SettingRow) -> inspect.Parameter:
    """Returns the parameter of a command for a setting."""
    described = setting.description[0].upper() + setting.description[1:] + "."
    metavar = None
    if setting.type in (list[str], list[int]):
        described += " Repeatable."
        metavar = "TEXT" if setting.type == list[str] else "ID"
    option = typer.Option(metavar=metavar, help=described)
    return inspect.Parameter(
        _NAMES.get(setting.name, setting.name),
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation=Annotated[setting.type | None, option],
    )
