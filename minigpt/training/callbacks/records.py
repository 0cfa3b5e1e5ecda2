"""Records training: metrics.jsonl and steps.jsonl."""

import math
import sys
from typing import Any

import numpy as np

from minigpt.runs.records import append_lines
from minigpt.runs.run import Run
from minigpt.training.callbacks.callback import Callback, training_loss
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.callbacks.clock import Clock

if sys.platform != "win32":
    import resource

# The first updates are all recorded; after that, the distance doubles whenever the number of updates does.
RECORDED_WITHOUT_GAPS = 256


class Recorder(Callback):
    """Appends a line to metrics.jsonl at the end of every epoch."""

    def __init__(self, run: Run, clock: Clock) -> None:
        super().__init__()
        self.run = run
        self.clock = clock

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        self.run.append(
            self.run.metrics_file,
            {
                "epoch": epoch + 1,
                "step": self.clock.step,
                "train_loss": training_loss(logs),
                **{name: value for name, value in logs.items() if name.startswith("val_")},
                "tokens_per_second": round(self.clock.tokens_per_second, 1),
                "seconds": round(self.clock.seconds, 3),
                "learning_rate": float(np.asarray(self.model.optimizer.learning_rate)),
            },
        )


class StepRecorder(Callback):
    """Records the mean training loss of the epoch so far, learning rate, speed and memory.

    A line holds the mean over the epoch and not over the updates since the line before, so that training
    that is resumed within an epoch needs no other state: readers subtract consecutive lines.

    Lines are written before every checkpoint, which guarantees that those of its updates are on disk.

    Args:
      run: the run.
      checkpointing: counts batches and calls `flush`. It must be called after this callback.
    """

    def __init__(self, run: Run, checkpointing: Checkpointing) -> None:
        super().__init__()
        self.run = run
        self.clock = checkpointing.clock
        self.checkpointing = checkpointing
        checkpointing.before_saving.append(self.flush)
        self._epoch = 0
        self._lines: list[dict[str, Any]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        loss = float(training_loss(logs))
        is_update = self.clock.batches % self.clock.config.accumulate_steps == 0
        if (is_update and is_recorded(self.clock.step)) or not math.isfinite(loss):
            self._lines.append(
                {
                    "epoch": self._epoch,
                    "step": self.clock.step,
                    "batches": self.checkpointing.batch + 1,
                    # JSON has neither nan nor infinity.
                    "mean_loss": loss if math.isfinite(loss) else None,
                    "seconds": round(self.clock.seconds, 3),
                    "tokens_per_second": round(self.clock.tokens_per_second, 1),
                    "learning_rate": float(np.asarray(self.model.optimizer.learning_rate)),
                    "memory_bytes": _peak_memory(),
                }
            )

    def flush(self) -> None:
        """Writes the lines.

        Raises:
          OSError: they cannot be written.
        """
        lines, self._lines = self._lines, []
        if lines:
            append_lines(self.run.steps_file, lines)


def is_recorded(step: int) -> bool:
    """Returns whether a line is written after this number of updates.

    It depends on nothing else, so training that was interrupted has the same lines.
    """
    distance = 1
    while step > RECORDED_WITHOUT_GAPS * distance:
        distance *= 2
    return step % distance == 0


def _peak_memory() -> int | None:
    """Returns the largest resident memory of this process so far, in bytes; None on Windows."""
    if sys.platform == "win32":
        return None
    # Kilobytes, but bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
