"""The program: its commands, its options, and how a command ends."""

import sys
from typing import Annotated

import typer
from typer._click.exceptions import ClickException, NoArgsIsHelpError

import minigpt
from minigpt.cli.configs import configs
from minigpt.cli.evaluate import evaluate
from minigpt.cli.export import export
from minigpt.cli.import_run import import_run
from minigpt.cli.output import print_message
from minigpt.cli.sample import sample
from minigpt.cli.tokenize import tokenize
from minigpt.cli.train import train
from minigpt.cli.translate import translate
from minigpt.errors import UserError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Train small GPT language models on any text, sample from them, and export them.",
)

INTERRUPTED = 130


def _print_version(requested: bool) -> None:
    if requested:
        print(f"minigpt {minigpt.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


for function in (train, sample, translate, tokenize, evaluate, export):
    app.command()(function)
app.command("import")(import_run)
app.command()(configs)


def run_command() -> None:
    """Runs the command that `sys.argv` describes and exits with its status.

    Each problem with the user's input is one line on standard error; the status is then 2.

    Raises:
      KeyboardInterrupt: the command was interrupted.
      SystemExit: the command ended.
    """
    try:
        status = app(standalone_mode=False, prog_name="minigpt")
    except UserError as error:
        for problem in error.problems:
            print_message(f"minigpt: {problem}")
        sys.exit(2)
    except NoArgsIsHelpError as error:
        print(error.format_message())
        sys.exit(2)
    except ClickException as error:
        message = error.format_message().replace(" is not one of", ": should be one of")
        print_message(f"minigpt: {message}")
        sys.exit(2)
    except typer.Abort:
        status = INTERRUPTED
    # typer turns KeyboardInterrupt into this status.
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    sys.exit(status)
