"""The training loop."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from rich.console import Console

from minigpt.errors import failure
from minigpt.notices import LOGGER
from minigpt.runs.checkpoints import Checkpoint
from minigpt.runs.records import append_lines
from minigpt.runs.run import Run
from minigpt.training.checkpointing import Checkpointing
from minigpt.training.clock import Clock, StepLimits
from minigpt.training.hooks import Hook, Hooks
from minigpt.training.metrics import Records, training_loss
from minigpt.training.optimizers import learning_rate
from minigpt.training.progress import Display
from minigpt.training.start import keeps_limits
from minigpt.training.stopping import Interrupt, diverged
from minigpt.training.strategy import Strategy
from minigpt.training.tasks.task import Batch, Task

# The share of training after which R-Drop begins. An earlier beginning was not better.
R_DROP_START = 0.6


class TrainingLoop:
    """Training in a run directory. `fit` is the loop.

    Args:
      run: the run, locked for this process.
      model: compiled for the task.
      callbacks: Keras callbacks. They see one `fit` that begins in the first epoch that has not ended; the
        logs of each epoch have the scores. Their own state is not in checkpoints.
      hooks: outputs that training does not need; each fails without ending training.
      strategy: computes the steps. If it is not the first of several processes, nothing is written.

    Attributes:
      clock: counts steps and seconds.
      checkpointing: counts epochs and batches, tracks the best state, and saves the state.
      ended_together: whether all processes have ended the loop at the same update.
    """

    def __init__(
        self,
        run: Run,
        task: Task,
        model: keras.Model,
        callbacks: Sequence[keras.callbacks.Callback],
        console: Console,
        hooks: Sequence[Hook] = (),
        strategy: Strategy | None = None,
    ) -> None:
        self.run, self.task, self.model = run, task, model
        self.strategy = strategy or Strategy()
        self.hooks = Hooks(hooks)
        self.ended_together = False
        training = self.training = task.config.training
        limits = StepLimits(training.epochs * training.updates_per_epoch, training.step_limits)
        is_first = self.strategy.is_first
        # Only the first process applies the time limit.
        timed = training if is_first else training.model_copy(update={"max_minutes": None})
        self.clock = Clock(timed, limits, task.tokens_per_batch * training.accumulate_steps)
        self.records = Records(run, model, self.clock, is_first)
        self.checkpointing = Checkpointing(run, task.config, model, self.clock, self.records)
        self.interrupt = Interrupt(console)
        self.display = Display(console, self.clock)
        self.callbacks = list(callbacks)
        if training.tensorboard and is_first:
            board = keras.callbacks.TensorBoard(
                run.tensorboard_folder, histogram_freq=1, write_graph=False
            )
            self.callbacks.append(board)
        self._scores: dict[str, Any] = {}
        self._samples: Callable[[float], list[dict[str, Any]]] | None = None

    def restore(self, checkpoint: Checkpoint | None) -> None:
        """Restores the state from a checkpoint of this run; None for the first step."""
        if checkpoint is None:
            return
        self.checkpointing.restore(checkpoint)
        training, clock = self.training, self.clock
        if keeps_limits(checkpoint, self.task.config):
            clock.limits.changes = [list(change) for change in checkpoint.progress.plan]
        # An epoch that the time limit ended early counts with the steps that it had.
        epochs_left = training.epochs - self.checkpointing.epoch
        clock.limits.total_steps = clock.epoch_step + epochs_left * training.updates_per_epoch

    @property
    def is_over(self) -> bool:
        """Whether all updates are done and all epochs have ended."""
        saving, clock = self.checkpointing, self.clock
        ended = clock.step >= clock.end or saving.is_out_of_patience
        return saving.epoch >= self.training.epochs or (
            saving.epoch > 0 and not saving.batch and ended
        )

    def fit(self) -> None:
        """Trains until the last step.

        Raises:
          UserError: the loss became nan or infinite.
          KeyboardInterrupt: after Ctrl-C, with the state saved.
        """
        training, task, model, clock = self.training, self.task, self.model, self.clock
        saving, records, display, hooks = self.checkpointing, self.records, self.display, self.hooks
        model.stop_training = False
        with (
            records,
            display,
            self.interrupt,
            clock,
            self._open_callbacks() as callbacks,
            self.strategy.computing(self) as step,
        ):
            if training.init_from and not clock.batches and saving.best is None:
                # The model that training begins from may be better than all that follow.
                self._evaluate({"loss": None})
                self._show_samples()
                saving.save_if_due()
            for epoch in range(saving.epoch, training.epochs):
                clock.begin_epoch()
                display.epoch = epoch + 1
                if not saving.batch:
                    model.reset_metrics()
                callbacks.on_epoch_begin(epoch)

                # An epoch that was interrupted goes on with its next batch.
                for number in range(saving.batch, saving.batches_per_epoch):
                    batch = task.batch(clock.batches)
                    progress = clock.limits.progress(clock.step)
                    if training.r_drop and progress >= R_DROP_START:
                        batch = in_pairs(batch)
                    rate = learning_rate(training, clock.step, progress)
                    model.optimizer.learning_rate = rate
                    callbacks.on_train_batch_begin(number)
                    logs = _floats(step(batch))
                    clock.count_batch()
                    saving.batch += 1
                    model.stop_training |= clock.step >= clock.end

                    records.add_step(epoch + 1, saving.batch, logs)
                    if not math.isfinite(loss := training_loss(logs)):
                        raise diverged(self.run, training, clock.step, loss)
                    display.show_step(logs)
                    if saving.is_time(training.eval_every_steps):
                        logs |= self._evaluate(logs)
                    if saving.is_time(training.sample_every_steps):
                        self._show_samples()
                    callbacks.on_train_batch_end(number, _known(logs))
                    hooks.call("step_ended", logs)
                    saving.save_if_due()
                    if "val_loss" in logs:
                        hooks.call("evaluated", logs)
                    if self._agree_to_end():
                        break

                # An epoch also ends at the time limit, or if the loss no longer improves.
                saving.epoch, saving.batch = epoch + 1, 0
                logs = _floats(model.get_metrics_result())
                logs |= self._evaluate(logs)
                if saving.epoch % task.config.sampling.print_every == 0:
                    self._show_samples()
                callbacks.on_epoch_end(epoch, _known(logs))
                saving.save()
                hooks.call("evaluated", logs)
                if self._agree_to_end():
                    break
        self.ended_together = True

    @contextmanager
    def _open_callbacks(self) -> Iterator[keras.callbacks.CallbackList]:
        training = self.training
        callbacks = keras.callbacks.CallbackList(
            self.callbacks,
            add_history=True,
            model=self.model,
            epochs=training.epochs,
            steps=self.checkpointing.batches_per_epoch,
            verbose=0,
        )
        callbacks.on_train_begin()
        try:
            yield callbacks
        finally:
            callbacks.on_train_end(_known(self._scores))

    def _evaluate(self, logs: dict[str, Any]) -> dict[str, Any]:
        """Returns the scores on the held-out text; shows, records and judges them."""
        with self.clock.overhead():
            scores = self.task.scores()
        epochs = self.checkpointing.epochs_done
        self._scores = logs | scores
        self.display.show_scores(epochs, self._scores)
        self.records.add_scores(epochs, self._scores)
        self.checkpointing.judge(scores["val_loss"])
        return scores

    def _show_samples(self) -> None:
        """Shows and records samples. If they fail, one line is printed and training goes on."""
        epochs = self.checkpointing.epochs_done
        if not self.strategy.is_first:
            return
        with self.clock.overhead():
            try:
                self._samples = self._samples or self.task.samples(self.model, self.display)
                append_lines(self.run.samples_file, self._samples(epochs))
            except Exception as error:
                LOGGER.warning("no samples after epoch %g: %s", epochs, failure(error))

    def _agree_to_end(self) -> bool:
        """Agrees with the other processes whether the epoch ends here; never within an accumulated update.

        Raises:
          KeyboardInterrupt: a process was interrupted; the state is saved.
        """
        if not self.clock.is_update:
            return False
        interrupted = self.strategy.agree(self)
        saving = self.checkpointing
        if interrupted and (saving.is_within_epoch or not saving.batch):
            self.ended_together = True
            saving.save()
            raise KeyboardInterrupt
        return self.model.stop_training


def in_pairs(batch: Batch) -> Batch:
    """Returns the batch with a copy of row 0, 2, 4, ... in place of the next row, for R-Drop.

    If two devices share a pair, its predictions are not compared.
    """
    rows = np.arange(len(batch[1])) // 2 * 2
    return keras.tree.map_structure(lambda array: None if array is None else array[rows], batch)


def _floats(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: float(value) for name, value in metrics.items()}


def _known(logs: dict[str, Any]) -> dict[str, Any]:
    """Returns the logs for callbacks of Keras, without the scores that do not exist."""
    return {name: value for name, value in logs.items() if value is not None}
