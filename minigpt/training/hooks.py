"""Hooks: outputs that training does not need, such as portable files and the report.

This package imports none of them. `minigpt/app.py` passes them to `train`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from minigpt.errors import failure
from minigpt.notices import LOGGER
from minigpt.runs.run import Run

if TYPE_CHECKING:
    from minigpt.training.loop import TrainingLoop


class Hook:
    """An output that training does not need. If a method fails, one line is printed and training goes on.

    Attributes:
      name: what the hook writes, for that line.
      advice: after `finished`, what to do next; "" if longer training is no help, None if not known.
    """

    name = "an output"
    advice: str | None = None

    def started(self, loop: "TrainingLoop") -> None:
        """Called before the first step of this process, also if none is left: see `loop.is_over`.

        If it fails, the hook is not called again.
        """

    def step_ended(self, logs: dict[str, Any]) -> None:
        """Called after each batch, with the training loss of the epoch so far."""

    def evaluated(self, logs: dict[str, Any]) -> None:
        """Called after each validation, with its scores; at the end of an epoch, after its checkpoint."""

    def best_ready(self, run: Run, model: keras.Model) -> None:
        """Called after training, with the best model."""

    def finished(self, run: Run, state: str) -> list[str]:
        """Called last; returns lines to print. `state` is "finished", "interrupted" or "failed"."""
        return []


class Hooks:
    """Calls hooks. The first failure of each is a warning of one line; later ones are ignored."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._hooks = list(hooks)
        self._failed: set[Hook] = set()

    def started(self, loop: "TrainingLoop") -> None:
        self.call("started", loop)
        self._hooks = [hook for hook in self._hooks if hook not in self._failed]

    @property
    def advice(self) -> str | None:
        """That of the first hook that has one, "" included."""
        return next((hook.advice for hook in self._hooks if hook.advice is not None), None)

    def finished(self, run: Run, state: str) -> list[str]:
        return [line for lines in self.call("finished", run, state) for line in lines]

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Calls a method of all hooks; returns the results of those that did not fail."""
        results = []
        for hook in self._hooks:
            try:
                results.append(getattr(hook, method)(*arguments))
            except Exception as error:
                if hook not in self._failed:
                    LOGGER.warning("%s is not written: %s", hook.name, failure(error))
                self._failed.add(hook)
        return results
