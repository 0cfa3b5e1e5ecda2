"""Writes the files that TensorBoard shows."""

from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.config import Config
from minigpt.environment import install_command
from minigpt.errors import UserError
from minigpt.runs.records import read_lines
from minigpt.runs.run import Run
from minigpt.training.callbacks.callback import Stage, training_loss
from minigpt.training.callbacks.progress import is_recorded
from minigpt.training.hooks import Hook
from minigpt.training.loop import TrainingLoop

# The samples of an epoch in the order in which they were generated.
_SAMPLE_NAMES = ("prompt", "source", "reference", "text")


class TensorBoard(Hook):
    """Writes losses and speed as scalars, samples as text, and weights as histograms.

    Each process writes its own file. Updates that are repeated after training was interrupted are in
    two files, with the same values. Without `training.tensorboard`, nothing is written.
    """

    name = "tensorboard/"
    stage = Stage.KEEP

    def __init__(self) -> None:
        self._loop: TrainingLoop | None = None

    def check(self, config: Config) -> None:
        """Raises a `UserError` if the settings ask for TensorBoard and it is not installed."""
        if config.training.tensorboard and find_spec("tensorboard") is None:
            raise UserError(
                "training.tensorboard = true: TensorBoard is not installed: "
                f"{install_command('tensorboard')}"
            )

    def started(self, loop: TrainingLoop) -> None:
        if loop.training.tensorboard:
            self._loop, self._timed = loop, loop.clock.timed

    def step_ended(self, logs: dict[str, Any]) -> None:
        if (loop := self._loop) is None:
            return
        is_update = loop.clock.batches % loop.training.accumulate_steps == 0
        if is_update and is_recorded(loop.clock.step):
            speed, self._timed = loop.clock.speed_since(self._timed), loop.clock.timed
            self._scalars(
                {
                    "train/loss_of_epoch_so_far": training_loss(logs),
                    "train/learning_rate": np.asarray(loop.model.optimizer.learning_rate),
                    "train/tokens_per_second": speed,
                }
            )

    def epoch_ended(self, epoch: int, logs: dict[str, Any]) -> None:
        if (loop := self._loop) is None:
            return
        self._scalars(
            {
                f"validation/{name.removeprefix('val_')}": value
                for name, value in logs.items()
                if name.startswith("val_")
            }
        )
        samples = [line for line in read_lines(loop.run.samples_file) if line["epoch"] == epoch]
        with self._writer.as_default(loop.clock.step):
            for number, sample in enumerate(samples):
                tf.summary.text(f"samples/{number}", _markdown(sample))
            for number, weight in enumerate(loop.model.weights):
                tf.summary.histogram(f"weights/{number:03}_{weight.path}", weight.value)
        self._writer.flush()

    def finished(self, run: Run, state: str) -> list[str]:
        if self._loop:
            self._writer.flush()
        return []

    @cached_property
    def _writer(self) -> Any:
        assert self._loop
        return tf.summary.create_file_writer(str(self._loop.run.tensorboard_folder))

    def _scalars(self, values: dict[str, Any]) -> None:
        assert self._loop
        with self._writer.as_default(self._loop.clock.step):
            for name, value in values.items():
                if value is not None:
                    tf.summary.scalar(name, float(value))


def _markdown(sample: dict[str, Any]) -> str:
    """Returns a sample in Markdown, where indented lines are shown as they are."""
    rows = []
    for name in _SAMPLE_NAMES:
        if name in sample:
            indented = "\n".join(f"    {line}" for line in str(sample[name]).split("\n"))
            rows.append(f"**{name}**\n\n{indented}")
    return "\n\n".join(rows)
