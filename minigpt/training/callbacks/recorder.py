"""Writes metrics.jsonl."""

from typing import Any

import numpy as np

from minigpt.runs.run import Run
from minigpt.training.callbacks.callback import Callback, training_loss
from minigpt.training.callbacks.clock import Clock


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
