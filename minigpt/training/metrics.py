"""What training records: metrics.jsonl, a line per validation, and steps.jsonl."""

import math
from typing import Any

import keras
import numpy as np

from minigpt.environment import peak_memory
from minigpt.runs.records import append_lines
from minigpt.runs.run import Run
from minigpt.training.clock import Clock

# The first updates are all recorded; after that, the distance doubles whenever the number of updates does.
RECORDED_WITHOUT_GAPS = 256


class Records:
    """Records the scores of validations, and the loss, learning rate, speed and memory of updates.

    A line of steps.jsonl holds the mean loss over the epoch and not over the updates since the line before,
    so that training that is resumed within an epoch needs no other state: readers subtract consecutive
    lines. The speed is that of the updates since the line before; null if none of them was timed.

    To be used in a `with` statement, whose end writes the last lines. Later workers do not write.
    """

    def __init__(self, run: Run, model: keras.Model, clock: Clock, writes: bool = True) -> None:
        self.run, self.model, self.clock, self.writes = run, model, clock, writes
        self._timed = clock.timed
        self._lines: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.flush()

    def add_step(self, epoch: int, batches: int, logs: dict[str, Any]) -> None:
        """Notes an update, if it `is_recorded` or its loss is nan or infinite.

        Args:
          epoch: number of the epoch, from 1.
          batches: those of the epoch that are done.
          logs: the training loss of the epoch so far.
        """
        clock, loss = self.clock, training_loss(logs)
        if (clock.is_update and is_recorded(clock.step)) or not math.isfinite(loss):
            speed, self._timed = clock.speed_since(self._timed), clock.timed
            self._lines.append(
                {
                    "epoch": epoch,
                    "step": clock.step,
                    "batches": batches,
                    # JSON has neither nan nor infinity.
                    "mean_loss": loss if math.isfinite(loss) else None,
                    "seconds": round(clock.seconds, 3),
                    "tokens_per_second": speed and round(speed, 1),
                    "learning_rate": float(np.asarray(self.model.optimizer.learning_rate)),
                    "memory_bytes": peak_memory(),
                }
            )

    def flush(self) -> None:
        """Writes the lines of updates. An `OSError` if they cannot be written."""
        lines, self._lines = self._lines, []
        if lines and self.writes:
            append_lines(self.run.steps_file, lines)

    def add_scores(self, epoch: float, logs: dict[str, Any]) -> None:
        """Writes a line after a validation: the training loss of the epoch so far, and the scores.

        `epoch` is the number of epochs that are done: a fraction within an epoch, 0 before the first step.
        """
        speed = self.clock.tokens_per_second
        rate = float(np.asarray(self.model.optimizer.learning_rate))
        line = {
            "epoch": epoch,
            "step": self.clock.step,
            "train_loss": training_loss(logs),
            **{name: value for name, value in logs.items() if name.startswith("val_")},
            "tokens_per_second": speed and round(speed, 1),
            "seconds": round(self.clock.seconds, 3),
            "learning_rate": rate if self.clock.step else None,
        }
        if self.writes:
            append_lines(self.run.metrics_file, [line])


def training_loss(logs: dict[str, Any]) -> float:
    """Returns the loss per token without label smoothing."""
    return logs.get("plain_loss", logs["loss"])


def is_recorded(step: int) -> bool:
    """Returns whether a line is written after this number of updates.

    It depends on nothing else, so training that was interrupted has the same lines.
    """
    distance = 1
    while step > RECORDED_WITHOUT_GAPS * distance:
        distance *= 2
    return step % distance == 0
