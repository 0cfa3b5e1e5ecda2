"""What ends training early: a signal, a loss that is no number, a file that cannot be written."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

from rich.console import Console

from minigpt.config import TrainingConfig
from minigpt.errors import UserError, write_problem
from minigpt.interrupts import signals_handled_by
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.run import Run
from minigpt.training.console import show


class Interrupt:
    """Notes the first Ctrl-C, SIGTERM or SIGHUP of a `with` statement; a second one has its usual effect.

    Attributes:
      requested: whether a signal has arrived.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.requested = False
        self._handled = ExitStack()

    def __enter__(self) -> None:
        with suppress(ValueError):  # Only the main thread may handle signals.
            self._handled.enter_context(signals_handled_by(self._request))

    def __exit__(self, *_: object) -> None:
        self._handled.close()

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self.__exit__()
        if number == signal.SIGHUP:
            # Writing to a terminal that is gone would end training before its state is saved.
            self.console.quiet = True
        show(
            self.console,
            "Stopping after this step, or after the validation if an epoch ends; Ctrl-C again stops "
            "immediately.",
        )


def last_checkpoint(run: Run) -> Path | None:
    """Returns the path of the newest checkpoint."""
    return next(reversed(checkpoint_paths(run.checkpoints_folder)), None)


def diverged(run: Run, training: TrainingConfig, step: int, loss: float) -> UserError:
    """Returns the error for a loss that became nan or infinite."""
    return UserError(
        f"training.learning_rate = {training.learning_rate:g}: the loss is {loss} at step {step:,}; "
        "should be lower; also consider training.clip_norm and training.warmup_steps, and check the "
        f"text; {_last_checkpoint(run)}"
    )


@contextmanager
def report_failed_writes(run: Run) -> Iterator[None]:
    """Turns an `OSError`, for example of a full disk or a removed run directory, into one line.

    Raises:
      UserError: something could not be written; earlier checkpoints stay.
    """
    try:
        yield
    except OSError as error:
        place = "standard output" if isinstance(error, BrokenPipeError) else str(run.path)
        if isinstance(error.filename, str | Path):
            # A callback of the caller may write elsewhere.
            path = Path(error.filename).absolute()
            place = place if path.is_relative_to(run.path.absolute()) else str(path)
        raise UserError(
            f"{place}: cannot be written: {write_problem(error)}; {_last_checkpoint(run)}"
        ) from None


def _last_checkpoint(run: Run) -> str:
    if not run.path.exists():
        return "the run was removed or renamed; a renamed run can be resumed by its new name"
    path = last_checkpoint(run)
    return f"the last checkpoint is {path}" if path else "no checkpoint was saved yet"
