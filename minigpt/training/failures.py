"""Errors during training as one line, with the last checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minigpt.config import TrainingConfig
from minigpt.errors import UserError, write_problem
from minigpt.runs.layout import checkpoint_paths
from minigpt.runs.run import Run


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
