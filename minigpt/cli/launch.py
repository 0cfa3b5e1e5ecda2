"""`minigpt launch`: trains with several processes on one machine."""

import signal
from typing import Annotated

import typer

from minigpt.cli.terminal import print_message
from minigpt.corpus.text_files import recorded_path
from minigpt.distribution.launch import launch as launch_workers
from minigpt.environment import program_name
from minigpt.errors import UserError
from minigpt.interrupts import INTERRUPTED, Interrupted


def launch(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- train ...", help="The command that every worker runs."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Number of processes.")] = 2,
) -> None:
    """Train with several processes on this machine.

    Example: minigpt launch --workers 2 -- train --config python

    To train on several machines, use Slurm's `srun`, or start one process on each and set TF_CONFIG.
    """
    if not arguments or arguments[0] != "train":
        raise UserError(
            f"unexpected command; try: {program_name()} launch --workers {workers} -- train"
        )
    if "--plan" in arguments:
        raise UserError("--plan: measures one device; cannot be combined with launch")
    for number, argument in enumerate(arguments):
        # Standard input can be read only once: the workers read a copy.
        if argument == "--text=-" or arguments[max(0, number - 1) : number + 1] == ["--text", "-"]:
            arguments[number] = argument[:-1] + recorded_path(argument[-1])
    statuses = launch_workers(arguments, workers)
    # A worker that waits for the others is ended by Ctrl-C at once.
    statuses = [INTERRUPTED if status == -signal.SIGINT else status for status in statuses]
    for worker, status in enumerate(statuses):
        if status == -signal.SIGALRM:  # The alarm of `distribution.connection.connect`.
            print_message(
                f"minigpt: worker {worker} could not connect to the others within two minutes"
            )
        elif status < 0:
            print_message(f"minigpt: worker {worker} was ended by {signal.Signals(-status).name}")
    if INTERRUPTED in statuses:
        raise Interrupted
    failed = [status if status > 0 else 1 for status in statuses if status]
    raise typer.Exit(failed[0] if failed else 0)
