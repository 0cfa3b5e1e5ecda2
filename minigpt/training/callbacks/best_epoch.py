"""The best epoch, and early stopping."""

import math
from typing import Any

from minigpt.runs.checkpoints import checkpoint_name
from minigpt.runs.progress import Best
from minigpt.training.callbacks.callback import Callback
from minigpt.training.callbacks.clock import Clock


class BestEpoch(Callback):
    """Tracks the best epoch by validation loss, and stops training when it no longer improves.

    Args:
      clock: counts the steps.
      patience: epochs without improvement after which training stops; None for no limit.

    Attributes:
      best: the best epoch; None before the first has ended.
      epochs_since: epochs that have ended since then.
    """

    def __init__(self, clock: Clock, patience: int | None) -> None:
        super().__init__()
        self.clock = clock
        self.patience = patience
        self.best: Best | None = None
        self.epochs_since = 0

    def state_dict(self) -> dict[str, Any]:
        return {
            "best": self.best.model_dump() if self.best else None,
            "epochs_since_best": self.epochs_since,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = Best(**state["best"]) if state["best"] else None
        self.epochs_since = state["epochs_since_best"]

    @property
    def is_out_of_patience(self) -> bool:
        return self.patience is not None and self.epochs_since >= self.patience

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        loss = logs["val_loss"]
        self.epochs_since += 1
        if math.isfinite(loss) and (self.best is None or loss < self.best.val_loss):
            self.epochs_since = 0
            name = checkpoint_name(self.clock.step, epoch + 1)
            self.best = Best(val_loss=loss, epoch=epoch + 1, checkpoint=name)
        if self.is_out_of_patience:
            self.model.stop_training = True
