"""Training as a whole: corpus, task, model, restore, fit, export.

`minigpt.train` is `app.train`, which adds what is around the core: the report, portable files, replicas.
"""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from minigpt.config import Config, DialoguesConfig
from minigpt.config.loading import Overrides, as_strings
from minigpt.corpus.token_store import Corpus
from minigpt.environment import install_command
from minigpt.errors import ArgumentProblem, UserError, as_path, naming_arguments
from minigpt.interrupts import Interrupted, stop_if_interrupted
from minigpt.models import GPT, EncoderDecoder, build_model
from minigpt.models.lora import count_merged, enable_lora
from minigpt.models.state import copy_weights
from minigpt.notices import notices_to
from minigpt.runs.layout import check_run
from minigpt.runs.records import Facts
from minigpt.runs.run import Run
from minigpt.storage.atomic import atomic_file
from minigpt.training import messages
from minigpt.training.console import new_console, show
from minigpt.training.hooks import Hook, Hooks
from minigpt.training.loop import TrainingLoop
from minigpt.training.start import new_training, resumed_training, starting_model
from minigpt.training.stopping import report_failed_writes
from minigpt.training.strategy import Strategy, enough_memory, probe_speed, training_seconds
from minigpt.training.tasks.dialogue import Dialogue
from minigpt.training.tasks.language_modeling import LanguageModeling
from minigpt.training.tasks.task import Task
from minigpt.training.tasks.translation import Translation

TASKS: dict[str, type[Task]] = {"gpt": LanguageModeling, "encoder_decoder": Translation}


def train(
    config: Config | Mapping[str, Any] | str | Path | None = None,
    run: str | Path | None = None,
    *,
    text: str | Path | Sequence[str | Path] | None = None,
    minutes: float | None = None,
    base: str | Path | Run | None = None,
    resume_from: str | Path | None = None,
    overrides: Overrides = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
    name: str | None = None,
    command: str = "minigpt",
    console: Console | None = None,
    hooks: Sequence[Hook] = (),
    strategy: Strategy | None = None,
) -> Run:
    """Trains a model. `minigpt.train` describes the arguments, the result and the errors.

    Args:
      hooks: outputs that training does not need.
      strategy: computes the steps; None for one device.
    """
    began = time.perf_counter()
    _check_arguments(resume_from, callbacks, (config, run, base, text) != (None,) * 4)
    overrides = as_strings(overrides, minutes)
    strategy = strategy or Strategy()
    is_first = strategy.is_first
    # Only the first of several processes prints.
    console = (console or new_console()) if is_first else Console(quiet=True)
    hooks = hooks if is_first else ()
    with ExitStack() as contexts:
        contexts.enter_context(notices_to(partial(show, console, indent=2)))
        with naming_arguments(minutes=minutes, base=base):
            start = (
                new_training(config, overrides, run, name, is_first, strategy.is_alone, base, text)
                if resume_from is None
                else contexts.enter_context(resumed_training(resume_from, overrides, is_first))
            )
        if start.config.training.tensorboard and find_spec("tensorboard") is None:
            problem = f"TensorBoard is not installed: {install_command('tensorboard')}"
            raise UserError(f"training.tensorboard = true: {problem}")

        # 1. Device and corpus.
        stop_if_interrupted()
        device = contexts.enter_context(strategy.open(start.config.training))
        corpus = start.open_corpus()
        strategy.check_start(start, corpus)

        # 2. Task.
        task = build_task(start.config, corpus)
        contexts.enter_context(enough_memory(task.config, corpus.tokenizer.vocab_size))

        # 3. Model.
        model = strategy.build_model(partial(initial_model, task, start.checkpoint is not None))
        strategy.compile(task, model)
        seconds = training_seconds(task, probe_speed(task.config.training)[0])
        if completed := start.completed:
            # Not before the text and all settings are known to be usable.
            sentence = messages.in_a_sentence(task, model, seconds)
            show(console, f"{completed.beginning}\n{sentence}".strip())
        description = messages.in_lines(messages.summary(task, model, device, seconds))
        facts = run_facts(task, model, device, completed.bits if completed else None)
        stop_if_interrupted()

        # 4. Restore.
        created = contexts.enter_context(start.run_directory(task, facts)) if is_first else None
        trained = strategy.share(created)
        contexts.enter_context(report_failed_writes(trained))
        loop = TrainingLoop(trained, task, model, callbacks, console, hooks, strategy)
        contexts.callback(strategy.wait, loop)
        loop.restore(start.checkpoint)
        if loop.is_over and trained.model_file.is_file():
            loop.hooks.started(loop)
            loop.hooks.finished(trained, "finished")
            show(console, messages.how_to_extend(loop, command), indent=None)
            return trained
        if is_first:
            start.discard_later_results(loop.checkpointing)
        try:
            # 5. Fit.
            if not loop.is_over:
                show(console, description, indent=12)
                show(console, start.describe(trained, loop.clock.step, loop.clock.end), indent=12)
                # Who has trained in this folder before knows them.
                others = len(list(trained.path.parent.glob("*/config.toml"))) - 1
                if start.run is None and not others:
                    show(console, messages.WORDS, indent=19)
            loop.hooks.started(loop)
            if not loop.is_over:
                strategy.check_weights(model)
                loop.fit()
                if why := messages.why_it_ended(loop):
                    show(console, why)
            if not is_first:
                return trained
            # 6. Export.
            show(console, "Exporting the best model.")
            scores = export_best(trained, task, loop.hooks)
            for line in loop.hooks.finished(trained, "finished"):
                show(console, line)
        except KeyboardInterrupt:
            show(console, messages.interrupted(loop, command), indent=None)
            loop.hooks.finished(trained, "interrupted")
            raise Interrupted from None
        except UserError:
            with suppress(Exception):
                loop.hooks.finished(trained, "failed")
            raise
        seconds = time.perf_counter() - began
        show(console, messages.finished(loop, scores, seconds))
        show(console, messages.next_commands(loop, command), indent=None)
    return trained


def build_task(config: Config, corpus: Corpus) -> Task:
    """Returns the task of a configuration. The settings in its `config` are all resolved.

    Raises:
      UserError: the text is too short for a batch, or a setting cannot be used with its tokenizer.
    """
    if isinstance(config.data, DialoguesConfig):
        return Dialogue(config, corpus)
    return TASKS[config.model.kind](config, corpus)


def initial_model(task: Task, is_resumed: bool = False) -> keras.Model:
    """Returns the model of a task before its first step.

    Args:
      is_resumed: whether a checkpoint is restored later, so that the run to start from is not needed.
    Raises:
      UserError: the run to start from has no model that can be used.
    """
    config = task.config
    source = None if is_resumed else starting_model(config)
    # Loaded first: initial values depend on what was built before.
    finished = source.load_model() if source else None
    model = build_model(config.model, task.corpus.tokenizer.vocab_size, config.training.precision)
    if finished:
        copy_weights(finished, model)
    if config.training.lora_rank:
        assert isinstance(model, GPT)
        enable_lora(model, config.training.lora_rank, task.corpus.tokenizer.dialogue_tokens)
    return model


def export_best(run: Run, task: Task, hooks: Hooks) -> dict[str, Any]:
    """Writes the best model into the run: the files of the hooks, then model.keras.

    Returns:
      Final scores of the model; see `Task.final_scores`.
    Raises:
      OSError: model.keras cannot be written.
    """
    best = run.load_model()
    weights = best.get_weights()
    hooks.call("best_ready", run, best)
    # A hook may have changed them, for example rounded them.
    best.set_weights(weights)
    # This file is written last: if it exists, the other files are complete or could not be written.
    with atomic_file(run.model_file) as unfinished:
        best.save(unfinished)
    return task.final_scores(best)


def run_facts(
    task: Task, model: GPT | EncoderDecoder, device: str, bits: tuple[float, float] | None = None
) -> Facts:
    """Returns the content of facts.json, which a run has before its first step."""
    uniform, unigram = task.baselines
    return Facts(
        parameters=count_merged(model),
        # The loss is nan if no held-out pair fits the model.
        baselines={"uniform": uniform, "unigram": unigram if math.isfinite(unigram) else None},
        train_bytes=task.corpus.train.bytes,
        train_tokens=task.corpus.train.tokens,
        val_tokens=task.corpus.val.tokens,
        device=device,
        text=task.split,
        bits_before_training=bits and dict(zip(("model", "ngram"), bits, strict=True)),
    )


def _check_arguments(resume_from: str | Path | None, callbacks: Any, names_new_run: bool) -> None:
    is_list = isinstance(callbacks, Sequence)
    if not is_list or not all(isinstance(c, keras.callbacks.Callback) for c in callbacks):
        expected = "`callbacks` should be a list of keras.callbacks.Callback"
        raise TypeError(f"{expected}. Received: {callbacks!r}")
    if resume_from is not None:
        as_path("resume_from", resume_from)
        if names_new_run:
            problem = "cannot be combined with `config`, `text`, `run` or `base`"
            problem += "; the run has its own"
            raise UserError(ArgumentProblem("resume_from", resume_from, problem))
        check_run(Path(resume_from), "resume_from")
