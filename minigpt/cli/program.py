"""The program: its commands, its options, and how a command ends."""

import importlib
import os
import re
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from pydantic import ValidationError

import minigpt
from minigpt.cli.terminal import print_message
from minigpt.environment import NEEDS_TENSORFLOW, program_name
from minigpt.errors import UserError
from minigpt.interrupts import INTERRUPTED

# Command → its module and function.
COMMANDS = {
    "train": ("train", "train"),
    "sweep": ("sweep", "sweep"),
    "sample": ("sample", "sample"),
    "chat": ("chat", "chat"),
    "translate": ("translate", "translate"),
    "tokenize": ("sample", "tokenize"),
    "evaluate": ("examining", "evaluate"),
    "doctor": ("examining", "doctor"),
    "memorized": ("examining", "memorized"),
    "export": ("export", "export"),
    "verify": ("export", "verify"),
    "report": ("examining", "report"),
    "import": ("runs", "import_run"),
    "runs": ("runs", "runs"),
    "configs": ("runs", "configs"),
    "serve": ("serve", "serve"),
    "launch": ("launch", "launch"),
}
# Those that open a portable file without TensorFlow: the commands of the distribution minigpt-portable.
PORTABLE = ("sample", "chat", "translate", "tokenize", "export", "serve")


FIRST_STEPS = """\
minigpt trains small GPT language models on any text, samples from them, and exports them.
A first model, of short stories, in about four minutes:    {0} train
A model of your own text, a file or a folder:              {0} train --text book.txt
At the end of training, the next commands are printed. All commands: {0} --help"""
FIRST_STEPS_WITHOUT_TENSORFLOW = """\
minigpt runs small GPT language models from portable files.
A text:                             {0} sample model.gguf --prompt "Once upon a time"
A web page that runs the model:     {0} export model.gguf --format html --output page.html
All commands: {0} --help"""


def _print_version(requested: bool) -> None:
    if requested:
        print(f"minigpt {minigpt.__version__}")
        raise typer.Exit


def _program(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        steps = FIRST_STEPS if _can_train() else FIRST_STEPS_WITHOUT_TENSORFLOW
        print(steps.format(program_name()))
        raise typer.Exit(2)


def build_app(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """Returns the program with some of its commands, whose modules are imported."""
    app = typer.Typer(
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Train small GPT language models on any text, sample from them, and export them."
        if _can_train()
        else "Run small GPT language models from portable files.",
    )
    app.callback()(_program)
    for command in commands:
        module, function = COMMANDS[command]
        # The options after `launch ... train` are those of `train`, also without `--` before it.
        # `train` says which option its arguments may have been meant for.
        settings = {
            "allow_interspersed_args": command != "launch",
            "allow_extra_args": command == "train",
        }
        imported = importlib.import_module(f"minigpt.cli.{module}")
        app.command(command, context_settings=settings)(getattr(imported, function))
    return app


def _usage_problem(error: typer.TyperException) -> str:
    """Returns in one line what is wrong with an option, with the value that was given."""
    message = error.format_message()
    if type(error).__name__ == "NoSuchOption" and (instead := _instead(error)):
        return instead
    found = re.fullmatch(r"Invalid value for '(.+?)': (?:Input |Value error, )?(.+)", message)
    if not (found and isinstance(error.__cause__, ValidationError)):
        return message
    (first, *_) = error.__cause__.errors(include_url=False)
    value = first["input"]
    problem = found[2].replace(f"{value!r} is not one of", "should be one of")
    return f"{found[1]} {value or repr(value)}: {problem}"


def _instead(error: Any) -> str:
    """Returns which setting or which commands an unknown option is for, in a message; "" if none."""
    from minigpt.config.schema import SECTIONS, variants  # Takes time, which a mistake may.

    option, name = error.option_name, error.option_name.lstrip("-").replace("-", "_")
    if any("--set" in parameter.opts for parameter in error.ctx.command.params):
        keys = {(s, key) for s in SECTIONS for v in variants(s).values() for key in v.model_fields}
        pairs = ((s, key) for s in SECTIONS for key in (name, f"{name}s") if (s, key) in keys)
        if found := [f"--set {section}.{key}=VALUE" for section, key in pairs]:
            return f"{option}: no such option; use: {' or '.join(found)}"
    app: Any = typer.main.get_command(build_app(COMMANDS if _can_train() else PORTABLE))
    found = [c for c, each in app.commands.items() if any(option in p.opts for p in each.params)]
    return f"{option}: no such option; is an option of: {', '.join(found)}" if found else ""


def _can_train() -> bool:
    """Returns whether TensorFlow and all of minigpt are installed."""
    return all(map(find_spec, ("tensorflow", "minigpt.training")))


def run_command() -> None:
    """Runs the command that `sys.argv` describes and exits with its status.

    Each problem with the user's input is one line on standard error; the status is then 2.

    Raises:
      KeyboardInterrupt: the command was interrupted.
      SystemExit: the command ended.
    """
    # Only the module of the command is imported. If options come first, or after a mistake, all are needed.
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    every = COMMANDS if _can_train() else PORTABLE
    try:
        app = build_app([first] if first in COMMANDS else every)
        status = app(standalone_mode=False, prog_name="minigpt")
        sys.stdout.flush()
    except UserError as error:
        for problem in error.problems:
            # A file name may contain a newline.
            print_message(f"minigpt: {problem}".replace("\n", "\\n"))
        sys.exit(2)
    except typer.TyperException as error:
        print_message(f"minigpt: {_usage_problem(error)}".replace("\n", "\\n"))
        sys.exit(2)
    except ModuleNotFoundError:
        if _can_train():
            raise
        print_message(f"minigpt: {first}: {NEEDS_TENSORFLOW}")
        sys.exit(2)
    except OSError:
        try:
            # Fails too if the error is that of standard output.
            print(flush=True)
        except OSError as error:
            # The reader has ended, as `head` does after its last line.
            is_pipe = isinstance(error, BrokenPipeError)
            if not is_pipe:
                print_message(f"minigpt: standard output: cannot be written: {error.strerror}")
            # Python writes what is left in the buffer when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1 if is_pipe else 2)
        raise
    except typer.Abort:
        status = INTERRUPTED
    # typer turns KeyboardInterrupt into this status.
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    sys.exit(status)
