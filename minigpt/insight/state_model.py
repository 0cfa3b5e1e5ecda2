"""Opens the model of a run in one of its two states: after the best epoch, or after the last step."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

import minigpt
from minigpt.errors import ArgumentProblem, UserError
from minigpt.runs.checkpoints import Checkpoint, newest_checkpoint
from minigpt.runs.layout import LARGE_BYTES
from minigpt.runs.run import Run

State = Literal["best", "last"]


class StateModel(NamedTuple):
    """A model, and the epoch and step of its state; None if they are not known."""

    model: Any
    epoch: int | None
    step: int | None


def as_state(state: str) -> State:
    """Returns a state; raises a `UserError` if it is neither "best" nor "last"."""
    if not isinstance(state, str) or state not in get_args(State):
        raise UserError(ArgumentProblem("state", state, "should be best or last"))
    return cast(State, state)


@contextmanager
def open_state(
    run: Run, state: State, weights: Sequence[np.ndarray] | None = None
) -> Iterator[StateModel]:
    """Opens the model of a run, for the engine if that can run it.

    Args:
      run: the run.
      state: "best" by validation loss, or "last": the newest checkpoint.
      weights: the values of `model.weights` in this state, without LoRA, if the caller has them.
    Raises:
      UserError: the run has no such model, or it cannot be read.
    """
    # Importing the library that writes the file takes as long as a small model needs for a sample.
    from minigpt.targets.gguf.run_file import best_facts, write_checkpoint_file, write_run_file
    from minigpt.targets.gguf.settings import engine_problems
    from minigpt.targets.gguf.writing import portable_problem

    checkpoint = _newest(run) if state == "last" else None
    facts = checkpoint.progress.model_dump() if checkpoint else best_facts(run)
    # No text is generated with beams here.
    settings = run.config.sampling.model_dump(exclude={"beams"})
    if portable_problem(run.config.model, run.load_tokenizer()) or engine_problems(settings, ""):
        yield StateModel(_in_tensorflow(run, checkpoint, weights), facts["epoch"], facts["step"])
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.gguf"
        if checkpoint and weights is None:
            write_checkpoint_file(run, file, checkpoint)
        else:
            write_run_file(run, file, weights=weights)
        if state == "best" and file.stat().st_size > LARGE_BYTES:
            model: Any = minigpt.load(run)
        else:
            model = minigpt.load_portable(file)
        # The engine has read the file.
        file.unlink()
        yield StateModel(model, facts["epoch"], facts["step"])


def _in_tensorflow(
    run: Run, checkpoint: Checkpoint | None, weights: Sequence[np.ndarray] | None
) -> Any:
    """Returns the model as a `TextModel`."""
    opened = minigpt.load(run)
    if weights is not None:
        opened.model.set_weights(weights)
    elif checkpoint is not None:
        opened.model.set_weights(run.load_model(checkpoint).get_weights())
    return opened


def _newest(run: Run) -> Checkpoint:
    checkpoint = newest_checkpoint(run.checkpoints_folder)
    if checkpoint is None:
        problem = "has no checkpoint; its last state is unknown"
        raise UserError(ArgumentProblem("run", run.path, problem))
    return checkpoint
