"""What a new training and one that goes on have in common: assemble, fit, export."""

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import keras
from rich.console import Console

from minigpt.config import Config, FilesConfig, PairsConfig
from minigpt.corpus.token_store import Corpus
from minigpt.errors import UserError
from minigpt.export import export_saved_model
from minigpt.interrupts import Interrupted
from minigpt.notices import notices_to
from minigpt.runs.checkpoints import Checkpoint, checkpoint_paths
from minigpt.runs.run import Run, save_model
from minigpt.storage.files import fsync, fsync_all
from minigpt.training.callbacks.basic import (
    BestSoFar,
    Clock,
    LearningRate,
    Recorder,
    StopAtNaN,
    TrainingDiverged,
    Validation,
)
from minigpt.training.callbacks.checkpointing import LEAST_SHARE, Checkpointing
from minigpt.training.callbacks.display import Display
from minigpt.training.callbacks.interrupt import Interrupt, TrainingInterrupted
from minigpt.training.console import duration
from minigpt.training.optimizers.build import build_optimizer
from minigpt.training.plan import Plan
from minigpt.training.tasks.language_modeling import LanguageModeling
from minigpt.training.tasks.task import Task
from minigpt.training.tasks.translation import Translation

TASKS: dict[str, type[Task]] = {"gpt": LanguageModeling, "encoder_decoder": Translation}


def build_task(config: Config, corpus: Corpus) -> Task:
    """The task of a configuration, its `config` with all written out that was left to the program.

    Raises:
      UserError: the text is too short for a batch.
    """
    task = TASKS[config.model.kind](config, corpus)
    task.config = _resolve(config, task)
    task.batches(0, 1)
    return task


def compile_model(task: Task, model: keras.Model) -> None:
    """Makes a model ready for its task, with every variable that a checkpoint holds."""
    training = task.config.training
    model.compile(
        optimizer=build_optimizer(training, model),
        jit_compile=not training.deterministic,
        **task.objective(),
    )
    if not model.optimizer.built:
        # The one around it that scales the loss, for float16.
        model.optimizer.build(model.trainable_variables)
    task.watch(model)


class Session:
    """A training in a run directory, from its beginning or from a checkpoint, to its export.

    Args:
      run: whose lock this process holds.
      task: what is learned.
      model: compiled for it.
      checkpoint: where to go on; None for the beginning.
      console: where to print.
      command: how the user calls minigpt, for the closing line.
    Raises:
      UserError: the checkpoint is of a model of other sizes.
    """

    def __init__(
        self,
        run: Run,
        task: Task,
        model: keras.Model,
        checkpoint: Checkpoint | None,
        console: Console,
        command: str,
    ) -> None:
        self.run, self.task, self.model = run, task, model
        self.checkpoint, self.console, self.command = checkpoint, console, command
        training = self.training = task.config.training
        assert training.steps_per_epoch is not None  # Resolved.
        plan = Plan(training.epochs * training.steps_per_epoch, training.step_limits)
        self.clock = Clock(training, plan, task.tokens_per_batch * training.accumulate_steps)
        self.best = BestSoFar(self.clock, training.early_stopping_patience)
        self.checkpointing = Checkpointing(run, task.config, self.clock, self.best)
        if checkpoint:
            self.checkpointing.restore(model, checkpoint)
            if plan_goes_on(checkpoint, task.config):
                plan.changes = [list(change) for change in checkpoint.progress.plan]
            # Not all epochs behind us are whole, if this is beyond the end of one that time had cut.
            epochs_left = training.epochs - self.checkpointing.epoch
            begun = self.checkpointing.batch // training.accumulate_steps
            plan.total_steps = self.clock.step - begun + epochs_left * training.steps_per_epoch
        self.plan = plan

    @property
    def is_over(self) -> bool:
        """Whether no update and no epoch's end is left to be made."""
        epochs = self.checkpointing.epoch
        ended = self.clock.step >= self.clock.end or self.best.given_up
        return epochs >= self.training.epochs or (
            epochs > 0 and not self.checkpointing.batch and ended
        )

    def fit(self) -> None:
        """Trains to the end of the plan.

        Raises:
          UserError: the loss became nan or infinite, or the state cannot be written.
          Interrupted: after Ctrl-C, with the state saved.
        """
        run, task, clock, training = self.run, self.task, self.clock, self.training
        assert training.steps_per_epoch is not None  # Resolved.
        display = Display(self.console, clock, training.epochs, training.steps_per_epoch)
        interrupt = Interrupt(self.checkpointing, self.console)
        callbacks = [
            clock,
            LearningRate(training, clock),
            Validation(task.scores),
            display,
            task.samples(display, lambda record: run.append(run.samples_file, record)),
            Recorder(run, clock),
            StopAtNaN(clock),
            self.best,
            self.checkpointing,
            interrupt,
        ]
        display.open()
        interrupt.take()
        try:
            try:
                self.model.stop_training = False
                if self.checkpointing.batch:
                    # The rest of an epoch, then the others: `fit` has one length for all.
                    self._fit(self.checkpointing.epoch + 1, callbacks)
                if not self.model.stop_training and self.checkpointing.epoch < training.epochs:
                    self._fit(training.epochs, callbacks)
            except TrainingInterrupted:
                self.checkpointing.save()
                raise KeyboardInterrupt from None
        except KeyboardInterrupt:
            # Or a second Ctrl-C, with an update or a checkpoint half made: that is not saved.
            display.close()
            self._say_interrupted()
            raise Interrupted from None
        except TrainingDiverged as diverged:
            raise self._diverged(*diverged.args) from None
        finally:
            interrupt.restore()
            display.close()
        self._say_why_it_ended()

    def _fit(self, epochs: int, callbacks: list[keras.callbacks.Callback]) -> None:
        """Goes on until so many epochs have ended, of which the running one may be done in part."""
        done = self.clock.batches
        left = self.plan.total_steps * self.training.accumulate_steps - done
        self.model.fit(
            self.task.batches(done, left),
            initial_epoch=self.checkpointing.epoch,
            epochs=epochs,
            steps_per_epoch=self.checkpointing.batches_per_epoch - self.checkpointing.batch,
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        )

    def export(self) -> None:
        """Writes the best model into the run, for Keras and as a SavedModel.

        Raises:
          UserError: it cannot be written.
          Interrupted: after Ctrl-C.
        """
        run, console = self.run, self.console
        console.print("Exporting the best model.")
        try:
            with notices_to(console.print):
                best = run.load_model()
            _replace_saved_model(best, self.task, run.saved_model_folder)
            # Last: where it is, everything is.
            save_model(best, run.model_file)
            if last_words := self.task.last_words(best):
                console.print(last_words)
        except KeyboardInterrupt:
            console.print(
                f"Interrupted after the training, before everything was exported.\n{self._go_on()}"
            )
            raise Interrupted from None
        console.print(
            f"Done in {duration(self.clock.seconds)}. The best model is in {run.path}: model.keras "
            "for Keras, saved_model/ for everything else.\n" + self.task.command(self.command, run)
        )

    @contextmanager
    def failed_writes_told(self) -> Iterator[None]:
        """Makes one line of a disk that is full, or of a run directory that is not there any more.

        Raises:
          UserError: something could not be written; what was saved before stays.
        """
        try:
            yield
        except OSError as error:
            place = "standard output" if isinstance(error, BrokenPipeError) else self.run.path
            raise UserError(
                f"{place}: cannot be written: {error.strerror or error}; {self._last_good_state()}"
            ) from None

    def _go_on(self) -> str:
        resume = f"Go on with: {self.command} train --resume {shlex.quote(str(self.run.path))}"
        return f"{resume}\n{self.task.command(self.command, self.run)}"

    def _last_state(self) -> Path | None:
        return next(reversed(checkpoint_paths(self.run.checkpoints_folder)), None)

    def _last_good_state(self) -> str:
        last = self._last_state()
        return f"the last good state is {last}" if last else "no state was saved yet"

    def _say_interrupted(self) -> None:
        clock, last = self.clock, self._last_state()
        saved = f"Its last state is saved in {last}." if last else "No state was saved yet."
        self.console.print(
            f"Interrupted at step {clock.step:,} of {clock.end:,}. {saved}\n{self._go_on()}"
        )

    def _diverged(self, step: int, loss: float) -> UserError:
        return UserError(
            f"training.learning_rate = {self.training.learning_rate:g}: the loss is {loss} at step "
            f"{step:,}; should be lower, or training.clip_norm or training.warmup_steps be set, or the "
            f"text be looked at; {self._last_good_state()}"
        )

    def _say_why_it_ended(self) -> None:
        training, clock, all_steps = self.training, self.clock, self.clock.plan.total_steps
        if clock.step < clock.end:
            self.console.print(
                f"Stopped at step {clock.step:,} of {clock.end:,}: no better validation loss for "
                f"training.early_stopping_patience = {training.early_stopping_patience} epochs."
            )
        elif clock.end < all_steps:
            minutes = training.max_minutes
            limit = f": training.max_minutes = {minutes:g}" if minutes else ""
            self.console.print(f"Ended after {clock.step:,} of {all_steps:,} steps{limit}.")
        saving = self.checkpointing.seconds
        if training.checkpoint_every_steps and saving > clock.seconds_here / LEAST_SHARE:
            self.console.print(
                f"Saving took {saving:.1f} s of {clock.seconds_here:.1f} s: "
                f"training.checkpoint_every_steps = {training.checkpoint_every_steps} is often."
            )


def plan_goes_on(checkpoint: Checkpoint, config: Config) -> bool:
    """Whether what the clock made of the plan still holds: nobody has asked for more or less."""
    before, training = checkpoint.progress.config["training"], config.training
    then, now = (
        (before.get("epochs"), before.get("max_minutes")),
        (training.epochs, training.max_minutes),
    )
    return then == now


def _replace_saved_model(model: keras.Model, task: Task, folder: Path) -> None:
    """Puts the export where that of an earlier end of this training may be."""
    new = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    try:
        export_saved_model(model, task.corpus.tokenizer, new)
        fsync_all(new)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
        fsync(folder.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _resolve(config: Config, task: Task) -> Config:
    """Writes out what was left to the program, so that the same settings give the same run."""
    training = config.training
    # Once over the training text, unless set.
    steps = max(1, task.batches_in_pass // training.accumulate_steps)
    data = config.data
    if isinstance(data, FilesConfig | PairsConfig):
        data = data.model_copy(
            update={"paths": [str(Path(path).absolute()) for path in data.paths]}
        )
    return config.model_copy(
        update={
            "data": data,
            "model": config.model.resolved(),
            "training": training.model_copy(
                update={"steps_per_epoch": training.steps_per_epoch or steps}
            ),
        }
    )
