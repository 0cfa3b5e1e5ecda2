"""The training loop: the callbacks around `Model.fit`."""

import time
from collections.abc import Sequence
from typing import Any

import keras
from rich.console import Console

from minigpt.errors import failure
from minigpt.notices import LOGGER
from minigpt.runs.checkpoints import Checkpoint
from minigpt.runs.records import append_lines
from minigpt.runs.run import Run
from minigpt.training.callbacks.callback import Callback, Stage
from minigpt.training.callbacks.checkpointing import BestEpoch, Checkpointing
from minigpt.training.callbacks.clock import Clock, LearningRate, StepLimits
from minigpt.training.callbacks.ending import Interrupt, StopAtNaN, TrainingInterrupted
from minigpt.training.callbacks.progress import Display, Recorder, StepRecorder
from minigpt.training.hooks import Hook, Hooks
from minigpt.training.start import keeps_limits
from minigpt.training.strategy import Strategy
from minigpt.training.tasks.task import Task


class TrainingLoop:
    """Training in a run directory.

    Args:
      run: the run, locked for this process.
      task: data and scores.
      model: compiled for the task.
      callbacks: additional Keras callbacks.
      console: where to print.
      hooks: outputs that training does not need.
      strategy: computes the steps. If it is not the first of several processes, nothing is written.

    Attributes:
      clock: counts steps and seconds.
      best: the best epoch.
      checkpointing: counts epochs and batches, and saves the state.
      interrupt: receives Ctrl-C.
      hooks: the hooks; each fails without ending training.
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
        self.run, self.task, self.model, self.console = run, task, model, console
        self.strategy = strategy or Strategy()
        self.hooks = Hooks(tuple(hooks))
        self.ended_together = False
        is_first = self.strategy.is_first
        training = self.training = task.config.training
        self.steps_per_epoch = training.updates_per_epoch
        limits = StepLimits(training.epochs * self.steps_per_epoch, training.step_limits)
        # Only the first process applies the time limit.
        timed = training if is_first else training.model_copy(update={"max_minutes": None})
        self.clock = Clock(timed, limits, task.tokens_per_batch * training.accumulate_steps)
        self.best = BestEpoch(self.clock)
        self.checkpointing = Checkpointing(run, task.config, self.clock, self.best, writes=is_first)
        self.user_callbacks = UserCallbacks(callbacks, self.checkpointing)
        replicas = self.strategy.replicas
        alone = replicas is None or replicas.workers == 1
        self.interrupt = Interrupt(self.checkpointing, console, stops=alone)

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
        display = Display(self.console, self.clock)
        steps = StepRecorder(self.checkpointing)
        callbacks = self._callbacks(display, steps)
        display.open()
        self.interrupt.install()
        try:
            self.model.stop_training = False
            if self.checkpointing.batch:
                # First the rest of an epoch, then the others: `fit` has one number of steps for all.
                self._fit(self.checkpointing.epoch + 1, callbacks)
            if not self.model.stop_training and self.checkpointing.epoch < self.training.epochs:
                self._fit(self.training.epochs, callbacks)
            self.ended_together = True
        except TrainingInterrupted:
            self.ended_together = True
            # A second Ctrl-C during an update or a checkpoint arrives as KeyboardInterrupt: nothing is
            # saved then.
            self.checkpointing.save()
            raise KeyboardInterrupt from None
        finally:
            self.clock.stop()
            self.interrupt.uninstall()
            self.user_callbacks.close()
            display.close()
            steps.flush()

    def _callbacks(self, display: Display, steps: StepRecorder) -> list[keras.callbacks.Callback]:
        """Returns the callbacks in the order in which they are called: that of their stages."""
        run, task, clock = self.run, self.task, self.clock
        callbacks: list[Callback] = [
            clock,
            LearningRate(clock),
            _Scores(task, self.checkpointing),
            self.best,
            self.user_callbacks,
            self.checkpointing,
            self.interrupt,
        ]
        if self.strategy.is_first:
            callbacks += [
                steps,
                display,
                _Samples(task, display, self.checkpointing),
                Recorder(self.checkpointing),
                StopAtNaN(run, clock),
                *self.hooks.callbacks(),
            ]
        return sorted(callbacks, key=lambda callback: callback.stage)

    def _fit(self, epochs: int, callbacks: list[keras.callbacks.Callback]) -> None:
        """Trains until this number of epochs have ended. The first one may be partly done."""
        left = self.checkpointing.batches_per_epoch - self.checkpointing.batch
        self.strategy.fit(self, callbacks, epochs, left)


class _Scores(Callback):
    """Adds the scores on the held-out text to the logs that the later callbacks read."""

    stage = Stage.SCORE

    def __init__(self, task: Task, checkpointing: Checkpointing) -> None:
        super().__init__()
        self.task = task
        self.checkpointing = checkpointing

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        if self.checkpointing.is_time(self.task.config.training.eval_every_steps):
            start = time.perf_counter()
            logs.update(self.task.scores())
            self.checkpointing.clock.add_overhead(time.perf_counter() - start)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        logs.update(self.task.scores())


class _Samples(Callback):
    """Calls the samples of a task. If they fail, one line is printed and training goes on."""

    def __init__(self, task: Task, display: Display, checkpointing: Checkpointing) -> None:
        super().__init__()
        self.checkpointing = checkpointing
        self.samples: Any = task.samples(display, self._record)
        self._place: dict[str, float] = {}

    def _record(self, line: dict[str, Any]) -> None:
        append_lines(self.checkpointing.run.samples_file, [line | self._place])

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self.samples.set_model(model)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.samples.on_train_begin(logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        saving, start = self.checkpointing, time.perf_counter()
        if saving.is_time(saving.config.training.sample_every_steps):
            self._place = {"epoch": saving.epochs_after(saving.batch + 1)}
            self.on_epoch_end(self.samples.print_every - 1)  # They are due then.
            self._place = {}
            saving.clock.add_overhead(time.perf_counter() - start)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        try:
            self.samples.on_epoch_end(epoch, logs)
        except Exception as error:
            place = self._place.get("epoch", epoch + 1)
            LOGGER.warning("no samples after epoch %g: %s", place, failure(error))


class UserCallbacks(Callback):
    """Passes the events of training to any Keras callbacks.

    They see a single `fit`, even if a resumed epoch needs two calls of it: one begin and one end of
    training, all epochs and steps, and batches numbered within their epoch. They are called after the
    validation, so the logs of an epoch hold `val_loss` and the other scores, and before the checkpoint.
    Scores that do not exist (None) are left out. Their own state is not saved in checkpoints.

    Args:
      callbacks: any Keras callbacks.
      checkpointing: counts epochs and batches.
    """

    stage = Stage.USER

    def __init__(
        self, callbacks: Sequence[keras.callbacks.Callback], checkpointing: Checkpointing
    ) -> None:
        super().__init__()
        self.callbacks = keras.callbacks.CallbackList(list(callbacks))
        self.checkpointing = checkpointing
        epochs, steps = checkpointing.config.training.epochs, checkpointing.batches_per_epoch
        self.callbacks.set_params({"verbose": 0, "epochs": epochs, "steps": steps})
        self._is_open = False
        self._first_batch = 0
        self._logs: dict[str, Any] = {}

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if not self._is_open:
            self._is_open = True
            self.callbacks.set_model(self.model)
            self.callbacks.on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._first_batch = self.checkpointing.batch
        self.callbacks.on_epoch_begin(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.callbacks.on_train_batch_begin(self._first_batch + batch, logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        known = {name: value for name, value in (logs or {}).items() if value is not None}
        self.callbacks.on_train_batch_end(self._first_batch + batch, known)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._logs = {name: value for name, value in (logs or {}).items() if value is not None}
        self.callbacks.on_epoch_end(epoch, self._logs)

    def close(self) -> None:
        """Ends training for the callbacks: files are closed."""
        if self._is_open:
            self._is_open = False
            self.callbacks.on_train_end(self._logs)
