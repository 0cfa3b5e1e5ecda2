"""Writes the files that TensorBoard shows."""

from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import tensorflow as tf

from minigpt.config import TrainingConfig
from minigpt.environment import install_command
from minigpt.errors import UserError
from minigpt.runs.run import Run
from minigpt.training.callbacks.callback import Callback, training_loss
from minigpt.training.callbacks.clock import Clock
from minigpt.training.callbacks.step_recorder import is_recorded
from minigpt.training.failures import OptionalOutput

# The samples of an epoch in the order in which they were generated.
_SAMPLE_NAMES = ("prompt", "source", "reference", "text")


class TensorBoard(Callback):
    """Writes losses and speed as scalars, samples as text, and weights as histograms.

    Each process writes a file of its own. Updates that are repeated after training was interrupted are in
    two files, with the same values.

    Args:
      run: the run.
      clock: counts updates.
    """

    def __init__(self, run: Run, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self._folder = run.tensorboard_folder
        self._output = OptionalOutput(f"{run.tensorboard_folder.name}/")
        self._samples: list[dict[str, Any]] = []

    @cached_property
    def _writer(self) -> Any:
        return tf.summary.create_file_writer(str(self._folder))

    def add_sample(self, record: dict[str, Any]) -> None:
        """Adds a record of samples.jsonl, which is written at the end of the epoch."""
        self._samples.append(record)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        is_update = self.clock.batches % self.clock.config.accumulate_steps == 0
        if is_update and is_recorded(self.clock.step):
            with self._output.writing():
                self._scalars(
                    {
                        "train/loss_of_epoch_so_far": training_loss(logs),
                        "train/learning_rate": np.asarray(self.model.optimizer.learning_rate),
                        "train/tokens_per_second": self.clock.tokens_per_second,
                    }
                )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        with self._output.writing():
            self._write_epoch(logs)
        self._samples = []

    def _write_epoch(self, logs: dict[str, Any]) -> None:
        scores = {name: value for name, value in logs.items() if name.startswith("val_")}
        self._scalars(
            {
                f"validation/{name.removeprefix('val_')}": value
                for name, value in scores.items()
                if value is not None
            }
        )
        with self._writer.as_default(self.clock.step):
            for number, sample in enumerate(self._samples):
                tf.summary.text(f"samples/{number}", _markdown(sample))
            for number, weight in enumerate(self.model.weights):
                tf.summary.histogram(f"weights/{number:03}_{weight.path}", weight.value)
        self._writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        with self._output.writing():
            self._writer.flush()

    def _scalars(self, values: dict[str, Any]) -> None:
        with self._writer.as_default(self.clock.step):
            for name, value in values.items():
                tf.summary.scalar(name, float(value))


def check_tensorboard(config: TrainingConfig) -> None:
    """Raises a `UserError` if the settings ask for TensorBoard and it is not installed."""
    if config.tensorboard and find_spec("tensorboard") is None:
        raise UserError(
            f"training.tensorboard = true: TensorBoard is not installed: {install_command('tensorboard')}"
        )


def _markdown(sample: dict[str, Any]) -> str:
    """Returns a sample in Markdown, where indented lines are shown as they are."""
    rows = []
    for name in _SAMPLE_NAMES:
        if name in sample:
            indented = "\n".join(f"    {line}" for line in str(sample[name]).split("\n"))
            rows.append(f"**{name}**\n\n{indented}")
    return "\n\n".join(rows)
