"""Hooks: outputs that training does not need, such as portable files, the report and TensorBoard.

This package imports none of them. `minigpt/app.py` passes them to `train`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras

from minigpt.config import Config
from minigpt.errors import failure
from minigpt.notices import LOGGER
from minigpt.runs.run import Run
from minigpt.training.callbacks.callback import Callback, Stage

if TYPE_CHECKING:
    from minigpt.training.loop import TrainingLoop


class Hook:
    """An output that training does not need. If a method fails, one line is printed and training goes on.

    Attributes:
      name: what the hook writes, for that line.
      stage: when `step_ended` and `epoch_ended` are called, among the callbacks of training.
    """

    name = "an output"
    stage = Stage.REPORT

    def check(self, config: Config) -> None:
        """Raises a `UserError` if the settings ask for something that this machine does not have.

        It is called before anything is written, and its errors end training.
        """

    def started(self, loop: "TrainingLoop") -> None:
        """Called before the first step of this process, also if none is left: see `loop.is_over`."""

    def step_ended(self, logs: dict[str, Any]) -> None:
        """Called after each batch, with the training loss of the epoch so far."""

    def epoch_ended(self, epoch: int, logs: dict[str, Any]) -> None:
        """Called after each epoch, with its scores.

        Args:
          epoch: epochs that have ended.
          logs: `loss`, `val_loss` and the other scores.
        """

    def best_ready(self, run: Run, model: keras.Model) -> None:
        """Called after training, with the best model."""

    def finished(self, run: Run, state: str) -> list[str]:
        """Called last; returns lines to print.

        Args:
          run: the run.
          state: "finished", "interrupted" or "failed".
        """
        return []


class Hooks:
    """Calls hooks. A failure of one is a warning of one line.

    Args:
      hooks: the hooks.
    """

    def __init__(self, hooks: "tuple[Hook, ...]" = ()) -> None:
        self._outputs = [_OptionalOutput(hook) for hook in hooks]

    def callbacks(self) -> list[Callback]:
        """Returns a callback for each hook, which calls `step_ended` and `epoch_ended`."""
        return list(self._outputs)

    def started(self, loop: "TrainingLoop") -> None:
        for output in self._outputs:
            with output.writing():
                output.is_ready = False
                output.hook.started(loop)
                output.is_ready = True

    def best_ready(self, run: Run, model: keras.Model) -> None:
        for output in self._outputs:
            if output.is_ready:
                with output.writing():
                    output.hook.best_ready(run, model)

    def finished(self, run: Run, state: str) -> list[str]:
        lines: list[str] = []
        for output in self._outputs:
            if output.is_ready:
                with output.writing():
                    lines += output.hook.finished(run, state)
        return lines


class _OptionalOutput(Callback):
    """The callback of a hook.

    Attributes:
      is_ready: False if `started` failed; the hook is then not called again.
    """

    def __init__(self, hook: Hook) -> None:
        super().__init__()
        self.hook = hook
        self.stage = hook.stage
        self.is_ready = True
        self._has_failed = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turns any exception of the block into a warning of one line. Later ones are ignored."""
        try:
            yield
        except Exception as error:
            if not self._has_failed:
                LOGGER.warning("%s is not written: %s", self.hook.name, failure(error))
            self._has_failed = True

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self.is_ready:
            with self.writing():
                self.hook.step_ended(dict(logs or {}))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.is_ready:
            with self.writing():
                self.hook.epoch_ended(epoch + 1, dict(logs or {}))
