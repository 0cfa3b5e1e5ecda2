"""Text to a trained model: corpus, model, callbacks, fit, export."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from minigpt.config import Config, load_config
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from minigpt.export import export_saved_model
from minigpt.interrupts import Interrupted, stop_if_interrupted
from minigpt.models import build_model
from minigpt.run import Run, save_model
from minigpt.run_path import new_run_path, refuse_taken
from minigpt.training.callbacks import (
    Clock,
    Interrupt,
    LearningRate,
    Recorder,
    StopAtNaN,
    TrainingDiverged,
    TrainingInterrupted,
    Validation,
)
from minigpt.training.device import set_up_device
from minigpt.training.display import Display, duration, new_console
from minigpt.training.fine_tuning import starting_point
from minigpt.training.language_modeling import LanguageModeling
from minigpt.training.optimizer import build_optimizer
from minigpt.training.plan import Plan
from minigpt.training.summary import describe
from minigpt.training.task import Task
from minigpt.training.translation import Translation

TASKS: dict[str, type[Task]] = {"gpt": LanguageModeling, "encoder_decoder": Translation}


def train(
    config: Config | Mapping[str, Any] | str | Path = "default",
    run: str | Path | None = None,
    *,
    name: str | None = None,
    command: str = "minigpt",
    console: Console | None = None,
) -> Run:
    """Trains a model from text, shows what it writes, and exports the best one.

    Args:
      config: settings; a nested dictionary, a path or a shipped configuration's name will do.
      run: the run directory, new or empty; `runs/NAME-N` if None.
      name: NAME of the default run directory; the configuration's if None.
      command: how the user calls minigpt, for the closing line.
      console: where to print; standard output if None.
    Returns:
      The finished run.
    Raises:
      UserError: if a setting, the text or the directory cannot be used. Nothing is left behind.
        If the loss becomes nan or infinite, what was saved before stays.
      KeyboardInterrupt: after Ctrl-C, with the state saved.
    """
    name = name or (Path(config).stem if isinstance(config, str | Path) else "run")
    config = config if isinstance(config, Config) else load_config(config)
    console = console or new_console()
    path = Path(run) if run else new_run_path(name)
    path = path if path.name else path.absolute()
    refuse_taken(path)
    stop_if_interrupted()

    start = starting_point(config)
    config = start.config if start else config
    device = set_up_device(config.training)
    corpus = open_corpus(
        config.data, config.tokenizer, console.print, start.tokenizer if start else None
    )
    task = TASKS[config.model.kind](config, corpus)
    config = task.config = _resolve(config, task)
    training = config.training
    steps_per_epoch = training.steps_per_epoch
    assert steps_per_epoch is not None  # Resolved.
    total_steps = training.epochs * steps_per_epoch
    batches = task.batches(total_steps * training.accumulate_steps)

    if start:
        model = start.build_model()
        console.print(start.describe(model))
    else:
        model = build_model(config.model, corpus.tokenizer.vocab_size, training.precision)
    model.compile(
        optimizer=build_optimizer(training, model),
        jit_compile=not training.deterministic,
        **task.objective(),
    )
    task.watch(model)
    console.print(describe(task, model, device, total_steps))

    stop_if_interrupted()
    made = Run.create(path, config, corpus.tokenizer, {"fingerprint": corpus.fingerprint})
    console.print(f"Run         {made.path}")
    plan = Plan(total_steps, training.plan)

    def record_plan() -> None:
        made.replace_config(
            config.model_copy(
                update={"training": training.model_copy(update={"plan": plan.changes})}
            )
        )

    tokens_per_step = task.tokens_per_batch * training.accumulate_steps
    clock = Clock(training, plan, tokens_per_step, record_plan)
    display = Display(console, clock, training.epochs, steps_per_epoch)
    interrupt = Interrupt(console.print)
    recorder = Recorder(made, clock)
    callbacks = [
        clock,
        LearningRate(training, clock),
        Validation(task.scores),
        display,
        task.samples(display, lambda record: made.append(made.samples_file, record)),
        recorder,
        StopAtNaN(clock),
        interrupt,
    ]
    if training.early_stopping_patience:
        callbacks.append(
            keras.callbacks.EarlyStopping(patience=training.early_stopping_patience, verbose=0)
        )
    try:
        model.fit(
            batches,
            epochs=training.epochs,
            steps_per_epoch=steps_per_epoch * training.accumulate_steps,
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        )
    except (TrainingInterrupted, KeyboardInterrupt):
        display.close()
        recorder.save_last()
        console.print(
            f"Interrupted at step {clock.step:,} of {clock.end:,}. Its state is saved in "
            f"{made.last_checkpoint}.\n{task.command(command, made)}"
        )
        raise Interrupted from None
    except TrainingDiverged as diverged:
        step, loss = diverged.args
        kept = made.last_checkpoint.is_file()
        raise UserError(
            f"training.learning_rate = {training.learning_rate:g}: the loss is {loss} at step {step:,}; "
            "should be lower, or training.clip_norm or training.warmup_steps be set; "
            + (
                f"the last good state is {made.last_checkpoint}"
                if kept
                else "no state was saved yet"
            )
        ) from None
    finally:
        interrupt.restore()
        display.close()
    _say_why_it_ended(console, config, clock)

    console.print("Exporting the best model.")
    try:
        best = made.load_model()
        save_model(best, made.model_file)
        export_saved_model(best, corpus.tokenizer, made.saved_model_folder)
        if last_words := task.last_words(best):
            console.print(last_words)
    except KeyboardInterrupt:
        console.print(
            f"Interrupted after the training, before everything was exported. The model is in "
            f"{made.path / 'checkpoints'}.\nExport it with: {command} export {made.path} --output DIR"
        )
        raise Interrupted from None
    console.print(
        f"Done in {duration(clock.seconds)}. The best model is in {made.path}: model.keras for Keras, "
        f"saved_model/ for everything else.\n{task.command(command, made)}"
    )
    return made


def _resolve(config: Config, task: Task) -> Config:
    """Writes out what was left to the program, so that the same settings give the same run."""
    training = config.training
    # Once over the training text, unless set.
    steps = max(1, task.batches_in_pass // training.accumulate_steps)
    paths = [str(Path(path).absolute()) for path in config.data.paths]
    return config.model_copy(
        update={
            "data": config.data.model_copy(update={"paths": paths}),
            "model": config.model.resolved(),
            "training": training.model_copy(
                update={"steps_per_epoch": training.steps_per_epoch or steps}
            ),
        }
    )


def _say_why_it_ended(console: Console, config: Config, clock: Clock) -> None:
    training, all_steps = config.training, clock.plan.total_steps
    if clock.step < clock.end:
        console.print(
            f"Stopped at step {clock.step:,} of {clock.end:,}: no better validation loss for "
            f"training.early_stopping_patience = {training.early_stopping_patience} epochs."
        )
    elif clock.end < all_steps:
        limit = f": training.max_minutes = {training.max_minutes:g}" if training.max_minutes else ""
        console.print(f"Ended after {clock.step:,} of {all_steps:,} steps{limit}.")
