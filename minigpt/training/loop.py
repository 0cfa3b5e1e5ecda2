"""The training loop: the callbacks around `Model.fit`, or around the same for several replicas."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import keras
from rich.console import Console

from minigpt.distribution.agreement import Agreement
from minigpt.distribution.replicas import Replicas
from minigpt.distribution.replicated_fit import replicated_fit
from minigpt.distribution.replicated_step import ReplicatedStep
from minigpt.insight.reporter import Reporter
from minigpt.insight.tensorboard import TensorBoard
from minigpt.notices import LOGGER
from minigpt.runs.checkpoints import Checkpoint
from minigpt.runs.run import Run
from minigpt.targets.gguf.epoch_files import EpochFiles, keeps_epochs
from minigpt.targets.gguf.writing import portable_problem
from minigpt.training.callbacks.best_epoch import BestEpoch
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.callbacks.clock import Clock
from minigpt.training.callbacks.display import Display
from minigpt.training.callbacks.interrupt import Interrupt, TrainingInterrupted
from minigpt.training.callbacks.learning_rate import LearningRate
from minigpt.training.callbacks.recorder import Recorder
from minigpt.training.callbacks.step_recorder import StepRecorder
from minigpt.training.callbacks.stop_at_nan import StopAtNaN
from minigpt.training.callbacks.user_callbacks import UserCallbacks
from minigpt.training.resumed_training import keeps_limits
from minigpt.training.step_limits import StepLimits
from minigpt.training.tasks.task import Task


class TrainingLoop:
    """Training in a run directory.

    Args:
      run: the run, locked for this process.
      task: data and scores.
      model: compiled for the task.
      callbacks: additional Keras callbacks.
      console: where to print.
      replicas: of the model; None for the default device. Of several workers, only the first writes.

    Attributes:
      clock: counts steps and seconds.
      best: the best epoch.
      checkpointing: counts epochs and batches, and saves the state.
      reporter: examines the training and writes the report.
      ended_together: whether all workers have ended the loop at the same update.
    """

    def __init__(
        self,
        run: Run,
        task: Task,
        model: keras.Model,
        callbacks: Sequence[keras.callbacks.Callback],
        console: Console,
        replicas: Replicas | None = None,
    ) -> None:
        self.run, self.task, self.model, self.console = run, task, model, console
        self.replicas = replicas
        self.ended_together = False
        self.is_first = replicas is None or replicas.is_first
        training = self.training = task.config.training
        assert training.steps_per_epoch is not None  # Resolved.
        self.steps_per_epoch = training.steps_per_epoch
        limits = StepLimits(training.epochs * self.steps_per_epoch, training.step_limits)
        # The time limit is the first worker's.
        timed = training if self.is_first else training.model_copy(update={"max_minutes": None})
        self.clock = Clock(timed, limits, task.tokens_per_batch * training.accumulate_steps)
        self.best = BestEpoch(self.clock, training.early_stopping_patience)
        self.checkpointing = Checkpointing(
            run, task.config, self.clock, self.best, writes=self.is_first
        )
        self.reporter = Reporter(run, task, self.checkpointing)
        self.user_callbacks = UserCallbacks(callbacks, training.epochs, self.checkpointing)

    def restore(self, checkpoint: Checkpoint | None) -> None:
        """Restores model and callbacks from a checkpoint; None for the first step.

        Raises:
          UserError: the checkpoint belongs to a model of different sizes.
        """
        if checkpoint is None:
            return
        self.checkpointing.restore(self.model, checkpoint)
        training, clock, limits = self.training, self.clock, self.clock.limits
        if keeps_limits(checkpoint, self.task.config):
            limits.changes = [list(change) for change in checkpoint.progress.plan]
        # An epoch that the time limit ended early counts with the steps that it had.
        steps_in_epoch = self.checkpointing.batch // training.accumulate_steps
        epochs_left = training.epochs - self.checkpointing.epoch
        limits.total_steps = clock.step - steps_in_epoch + epochs_left * self.steps_per_epoch

    @property
    def is_over(self) -> bool:
        """Whether all updates are done and all epochs have ended."""
        epochs = self.checkpointing.epoch
        ended = self.clock.step >= self.clock.end or self.best.is_out_of_patience
        return epochs >= self.training.epochs or (
            epochs > 0 and not self.checkpointing.batch and ended
        )

    def fit(self) -> None:
        """Trains until the last step.

        Raises:
          UserError: the loss became nan or infinite.
          KeyboardInterrupt: after Ctrl-C, with the state saved.
        """
        display = Display(self.console, self.clock, self.training.epochs, self.steps_per_epoch)
        alone = self.replicas is None or self.replicas.workers == 1
        interrupt = Interrupt(self.checkpointing, self.console, stops=alone)
        steps = StepRecorder(self.run, self.checkpointing)
        callbacks = self._callbacks(display, steps, interrupt)
        display.open()
        interrupt.install()
        try:
            self.model.stop_training = False
            if self.checkpointing.batch:
                # First the rest of an epoch, then the others: `fit` has one number of steps for all.
                self._fit(self.checkpointing.epoch + 1, callbacks, interrupt)
            if not self.model.stop_training and self.checkpointing.epoch < self.training.epochs:
                self._fit(self.training.epochs, callbacks, interrupt)
            self.ended_together = True
        except TrainingInterrupted:
            self.ended_together = True
            # A second Ctrl-C during an update or a checkpoint arrives as KeyboardInterrupt: nothing is
            # saved then.
            self.checkpointing.save()
            raise KeyboardInterrupt from None
        finally:
            self.clock.stop()
            interrupt.uninstall()
            self.user_callbacks.close()
            display.close()
            steps.flush()

    def _callbacks(
        self, display: Display, steps: StepRecorder, interrupt: Interrupt
    ) -> list[keras.callbacks.Callback]:
        """Returns the callbacks in the order in which they are called."""
        run, task, clock, training = self.run, self.task, self.clock, self.training
        # Adds the scores on the held-out text to the logs that the later callbacks read.
        scores = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: logs.update(task.scores())
        )
        learning_rate = LearningRate(training, clock)
        if not self.is_first:
            following = [scores, self.best, self.user_callbacks, self.checkpointing, interrupt]
            return [clock, learning_rate, *following]
        epoch_files = EpochFiles(run, task, self.checkpointing)
        board = TensorBoard(run, clock) if training.tensorboard else None

        def record_sample(record: dict[str, Any]) -> None:
            run.append(run.samples_file, record)
            if board:
                board.add_sample(record)

        return [
            clock,
            learning_rate,
            steps,
            scores,
            display,
            task.samples(display, record_sample),
            Recorder(run, clock),
            StopAtNaN(run, training, clock),
            self.best,
            self.user_callbacks,
            *([board] if board else []),
            *([epoch_files] if self._keeps_epochs() else []),
            self.checkpointing,
            self.reporter,
            interrupt,
        ]

    def _keeps_epochs(self) -> bool:
        """Returns whether the weights of each epoch are kept, if their format has the model."""
        if not keeps_epochs(self.training, self.model):
            return False
        problem = portable_problem(self.task.config.model, self.task.corpus.tokenizer)
        if problem is not None and self.training.keep_epochs:
            LOGGER.warning("the files of epochs are not written: %s", problem)
        return problem is None

    @cached_property
    def _replicated_step(self) -> ReplicatedStep:
        assert self.replicas
        return ReplicatedStep(self.task, self.model, self.replicas)

    def _fit(
        self, epochs: int, callbacks: list[keras.callbacks.Callback], interrupt: Interrupt
    ) -> None:
        """Trains until this number of epochs have ended. The first one may be partly done."""
        batches, checkpointing = self.clock.batches, self.checkpointing
        steps_per_epoch = checkpointing.batches_per_epoch - checkpointing.batch
        if self.replicas:
            replicated_fit(
                self._replicated_step,
                callbacks,
                Agreement(self.replicas, checkpointing, interrupt),
                first_batch=batches,
                initial_epoch=checkpointing.epoch,
                epochs=epochs,
                steps_per_epoch=steps_per_epoch,
            )
            return
        left = self.clock.limits.total_steps * self.training.accumulate_steps - batches
        self.model.fit(
            self.task.batches(batches, left),
            initial_epoch=checkpointing.epoch,
            epochs=epochs,
            steps_per_epoch=steps_per_epoch,
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        )
