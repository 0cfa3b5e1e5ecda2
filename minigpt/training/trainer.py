"""Text to a trained model: corpus, model, callbacks, fit, export."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from minigpt.config import Config, load_config
from minigpt.corpus.batches import batch_dataset, windows_in_pass
from minigpt.corpus.token_store import Corpus, open_corpus
from minigpt.evaluation import Evaluator
from minigpt.export import export_saved_model
from minigpt.interrupts import stop_if_interrupted
from minigpt.models import build_gpt
from minigpt.run import Run, new_run_path, refuse_taken, save_model
from minigpt.training.callbacks import (
    Clock,
    Interrupt,
    LearningRate,
    Recorder,
    TrainingInterrupted,
    Validation,
)
from minigpt.training.device import set_up_device
from minigpt.training.display import Display, duration, new_console
from minigpt.training.fine_tuning import starting_point
from minigpt.training.optimizer import build_optimizer
from minigpt.training.summary import describe
from minigpt.training.text_generator import TextGenerator


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
    steps_per_epoch = _steps_per_epoch(config, corpus)
    config = _resolve(config, steps_per_epoch)
    training = config.training
    total_steps = training.epochs * steps_per_epoch
    batches = batch_dataset(
        corpus.train.ids,
        config.sequence_length,
        training.batch_size,
        training.seed,
        0,
        total_steps * training.accumulate_steps,
    )

    if start:
        model = start.build_model()
        console.print(start.describe(model))
    else:
        model = build_gpt(config.model, corpus.tokenizer.vocab_size, training.precision)
    model.compile(
        optimizer=build_optimizer(training, model),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=not training.deterministic,
    )
    evaluator = Evaluator(model, training.batch_size)
    console.print(describe(config, corpus, model, evaluator, device, total_steps))

    stop_if_interrupted()
    made = Run.create(path, config, corpus.tokenizer, {"fingerprint": corpus.fingerprint})
    console.print(f"Run         {made.path}")
    clock = Clock(
        training,
        total_steps,
        config.sequence_length * training.batch_size * training.accumulate_steps,
    )
    display = Display(console, clock, training.epochs, steps_per_epoch)
    interrupt = Interrupt(console.print)
    recorder = Recorder(made, clock)
    callbacks = [
        clock,
        LearningRate(training, clock),
        Validation(evaluator, corpus.val, corpus.tokenizer.lossless),
        display,
        _text_generator(config, corpus, display, made),
        recorder,
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
            f"Interrupted at step {clock.step:,} of {total_steps:,}. Its state is saved in "
            f"{made.last_checkpoint}.\nSample from it with: {command} sample {made.path}"
        )
        raise KeyboardInterrupt from None
    finally:
        interrupt.restore()
        display.close()
    _say_why_it_ended(console, config, clock, total_steps)

    best = made.load_model()
    save_model(best, made.model_file)
    export_saved_model(best, corpus.tokenizer, made.saved_model_folder)
    prompt = next((f" --prompt {shlex.quote(p)}" for p in config.sampling.prompts if p), "")
    console.print(
        f"Done in {duration(clock.seconds)}. The best model is in {made.path}: model.keras for Keras, "
        f"saved_model/ for everything else.\nSample from it with: {command} sample {made.path}{prompt}"
    )
    return made


def _steps_per_epoch(config: Config, corpus: Corpus) -> int:
    """As set, or once over the training text."""
    if config.training.steps_per_epoch:
        return config.training.steps_per_epoch
    windows = windows_in_pass(corpus.train.tokens, config.sequence_length)
    return max(1, windows // (config.training.batch_size * config.training.accumulate_steps))


def _resolve(config: Config, steps_per_epoch: int) -> Config:
    """Writes out what was left to the program, so that the same settings give the same run."""
    paths = [str(Path(path).absolute()) for path in config.data.paths]
    return config.model_copy(
        update={
            "data": config.data.model_copy(update={"paths": paths}),
            "model": config.model.resolved(),
            "training": config.training.model_copy(update={"steps_per_epoch": steps_per_epoch}),
        }
    )


def _text_generator(config: Config, corpus: Corpus, display: Display, run: Run) -> TextGenerator:
    sampling = config.sampling
    return TextGenerator(
        corpus.tokenizer,
        sampling.prompts,
        sampling.max_new_tokens,
        sampling.top_k,
        sampling.temperature,
        sampling.seed,
        sampling.print_every,
        show=display.show_sample,
        record=lambda record: run.append(run.samples_file, record),
        top_p=sampling.top_p,
    )


def _say_why_it_ended(console: Console, config: Config, clock: Clock, total_steps: int) -> None:
    if clock.out_of_time:
        console.print(
            f"Stopped at step {clock.step:,} of {total_steps:,}: "
            f"training.max_minutes = {config.training.max_minutes:g} are over."
        )
    elif clock.step < total_steps:
        console.print(
            f"Stopped at step {clock.step:,} of {total_steps:,}: no better validation loss for "
            f"training.early_stopping_patience = {config.training.early_stopping_patience} epochs."
        )
