"""Keeps the weights after each epoch as portable files."""

from typing import Any

import keras
import numpy as np

from minigpt.config import TrainingConfig
from minigpt.models import GPT
from minigpt.models.lora import count_merged, merged_weights
from minigpt.runs.epoch_files import remove_epoch_files
from minigpt.runs.run import Run
from minigpt.targets.gguf.run_file import write_epoch_file
from minigpt.training.callbacks.callback import Callback
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.failures import OptionalOutput
from minigpt.training.tasks.task import Task

# The largest model whose epochs are kept if training.keep_epochs is not set.
MAX_PARAMETERS = 20_000_000


class EpochFiles(Callback):
    """Writes a portable file with matrices in int8 at the end of every epoch.

    It must be called directly before `checkpointing`: the file has the weights of the checkpoint, after the
    user's callbacks, and at a checkpoint, the files of its epochs are on disk, unless a warning has said
    why not. Files that are no longer kept are removed after the checkpoint is written.

    Args:
      run: the run.
      task: its settings and tokenizer.
      checkpointing: counts epochs.
    """

    def __init__(self, run: Run, task: Task, checkpointing: Checkpointing) -> None:
        super().__init__()
        self.run = run
        self.task = task
        self.checkpointing = checkpointing
        self._output = OptionalOutput("the file of the epoch")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._remove_old()

    def on_train_end(self, logs: Any = None) -> None:
        self._remove_old()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        with self._output.writing():
            self._write(epoch, logs)

    def _write(self, epoch: int, logs: dict[str, Any]) -> None:
        weights = self._weights()
        if not all(np.isfinite(array).all() for array in weights):
            return  # The checkpoint reports it.
        record = {**logs, "epoch": epoch + 1, "step": self.checkpointing.clock.step}
        write_epoch_file(self.run, self.task.config, self.task.corpus.tokenizer, weights, record)

    def _weights(self) -> list[np.ndarray]:
        """Returns the weights of a model without LoRA."""
        if self.task.config.training.lora_rank is None:
            weights: list[np.ndarray] = self.model.get_weights()
            return weights
        assert isinstance(self.model, GPT)
        return merged_weights(self.model)

    def _remove_old(self) -> None:
        with self._output.writing():
            remove_epoch_files(self.run.epochs_folder, self.checkpointing.epoch)


def keeps_epochs(training: TrainingConfig, model: keras.Model) -> bool:
    """Returns whether the weights of each epoch are kept: `training.keep_epochs`, or its default."""
    if training.keep_epochs is None:
        return count_merged(model) <= MAX_PARAMETERS
    return training.keep_epochs
