"""Training as a whole: corpus, task, model, restore, fit, export, report."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from minigpt.config import Config
from minigpt.config.overrides import check_overrides
from minigpt.distribution.cluster import find_cluster, is_first_worker
from minigpt.distribution.connection import lost_workers
from minigpt.distribution.replicas import Replicas
from minigpt.distribution.workers import (
    announce_run,
    check_weights,
    check_workers,
    follow,
    wait_for_first,
)
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.insight.record import read_analysis
from minigpt.insight.tensorboard import check_tensorboard
from minigpt.interrupts import Interrupted, stop_if_interrupted
from minigpt.notices import notices_to
from minigpt.runs.facts import write_facts
from minigpt.runs.run import Run, as_run, save_model
from minigpt.storage.atomic import atomic_folder
from minigpt.targets.gguf.run_file import write_run_file
from minigpt.targets.saved_model.writing import build_text_module
from minigpt.training import messages
from minigpt.training.console import new_console, show
from minigpt.training.device import enough_memory, set_up_replicas, uses_xla
from minigpt.training.facts import run_facts
from minigpt.training.failures import OptionalOutput, report_failed_writes
from minigpt.training.loop import TrainingLoop
from minigpt.training.new_training import new_training
from minigpt.training.optimizers.build import build_optimizer
from minigpt.training.resumed_training import resumed_training
from minigpt.training.start import Start
from minigpt.training.summary import summary
from minigpt.training.tasks import build_task
from minigpt.training.tasks.task import Task


def train(
    config: Config | Mapping[str, Any] | str | Path | None = None,
    run: str | Path | None = None,
    *,
    resume_from: str | Path | None = None,
    overrides: Sequence[str] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
    name: str | None = None,
    command: str = "minigpt",
    command_line: str | None = None,
    console: Console | None = None,
) -> Run:
    """Trains a model from text, shows what it generates, and exports the best one.

    With `training.deterministic` on a CPU, training that was interrupted and resumed any number of times
    ends with the same bytes in every weight and optimizer slot, the same metrics (except times) and the
    same samples as uninterrupted training.

    Several processes that are described by TF_CONFIG or Slurm's variables train together if each calls this
    function with the same arguments: see docs/distributed.md. The first one prints and writes.

    Args:
      config: settings: a `Config`, a nested dictionary, a path or the name of a shipped configuration.
        None for the default configuration.
      run: the run directory, new or empty; `runs/NAME-N` if None.
      resume_from: a run directory. Training resumes from its newest undamaged checkpoint, or from its
        first step if there is none, with the run's settings; `config` and `run` must be None.
      overrides: `"SECTION.KEY=VALUE"` strings, such as `"training.epochs=9"`. When training is
        resumed, all settings of `[sampling]` and some of `[training]` can change. The learning rate is
        then the same as if the setting had been changed at the beginning.
      callbacks: Keras callbacks. They see `val_loss` and the other scores in the logs of every epoch.
        See `UserCallbacks` for the order and for training that is resumed.
      name: NAME of the default run directory; the configuration's if None.
      command: how the user calls minigpt, for the suggested commands.
      command_line: the command line that starts the training, which the run records; None from Python.
      console: where to print; standard output if None.
    Returns:
      The finished run.
    Raises:
      UserError: a setting, the text or the directory cannot be used; a new run leaves no files. Or another
        worker differs or ends. Or
        the loss became nan or infinite, or the run cannot be written; earlier checkpoints stay. Or the
        run to resume does not exist, is in use by another process, or has no undamaged checkpoint.
      TypeError: an argument has the wrong type.
      KeyboardInterrupt: after Ctrl-C, with the state saved.
    """
    began = time.perf_counter()
    _check_arguments(config, run, resume_from, callbacks)
    is_first = is_first_worker()
    # Only the first of several workers prints.
    console = (console or new_console()) if is_first else Console(quiet=True)
    with ExitStack() as contexts:
        contexts.enter_context(notices_to(partial(show, console)))
        start: Start
        if resume_from is None:
            start = new_training(config, overrides, run, name, is_first)
        else:
            start = contexts.enter_context(resumed_training(resume_from, overrides, is_first))

        # 1. Devices and corpus.
        stop_if_interrupted()
        check_tensorboard(start.config.training)
        cluster = find_cluster(start.config.training.workers)
        device, replicas = set_up_replicas(start.config.training, cluster)
        contexts.enter_context(lost_workers(replicas))
        corpus = start.open_corpus()
        check_workers(replicas, start, corpus)

        # 2. Task.
        task = build_task(start.config, corpus)
        contexts.enter_context(enough_memory(task.config, corpus.tokenizer.vocab_size))

        # 3. Model.
        model = start.build_model(task, replicas)
        compile_model(task, model, replicas)
        description = summary(task, model, device, start.fine_tuning)
        facts = run_facts(task, model, device, command_line)
        stop_if_interrupted()

        # 4. Restore.
        if replicas and not is_first:
            return follow(replicas, start, task, model, callbacks)
        trained = contexts.enter_context(start.run_directory(task, facts))
        contexts.enter_context(report_failed_writes(trained))
        loop = TrainingLoop(trained, task, model, callbacks, console, replicas)
        contexts.callback(wait_for_first, replicas, loop)
        loop.restore(start.checkpoint)
        if not trained.facts:
            write_facts(trained.facts_file, facts)  # An earlier version began the run.
        is_exported = trained.model_file.is_file() and trained.saved_model_folder.is_dir()
        announce_run(replicas, trained, trains=not loop.is_over)
        if loop.is_over and is_exported:
            if read_analysis(trained).get("state") != "finished":
                loop.reporter.report("finished")
            show(console, messages.how_to_extend(loop, command))
            return trained
        start.discard_later_results(loop.checkpointing)
        try:
            # 5. Fit.
            if not loop.is_over:
                show(console, description)
                show(console, start.describe(trained, loop.clock.step, loop.clock.end))
                check_weights(replicas, model)
                loop.fit()
                for line in messages.why_it_ended(loop, command):
                    show(console, line)
            # 6. Export.
            show(console, "Exporting the best model.")
            scores = export_best(trained, task)
            # 7. Report.
            with loop.reporter.output.writing():
                verdicts = loop.reporter.report("finished")
                for line in messages.doctor(loop.reporter, verdicts, command):
                    show(console, line)
        except KeyboardInterrupt:
            show(console, messages.interrupted(loop, command))
            with loop.reporter.output.writing():
                loop.reporter.report("interrupted")
            raise Interrupted from None
        except UserError:
            with suppress(Exception):
                loop.reporter.report("failed")
            raise
        seconds = time.perf_counter() - began
        show(console, messages.finished(loop, scores, seconds, command))
    return trained


def resume(
    run: Run | str | Path,
    changes: Sequence[str] = (),
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    command: str = "minigpt",
    console: Console | None = None,
) -> Run:
    """Resumes training from the newest undamaged checkpoint, or extends training that has ended.

    Equivalent to `train(resume_from=run, overrides=changes)`, which describes the arguments. `run` may
    also be a `Run`.
    """
    check_overrides(changes, "changes")
    return train(
        resume_from=as_run(run).path,
        overrides=changes,
        callbacks=callbacks,
        command=command,
        console=console,
    )


def compile_model(task: Task, model: keras.Model, replicas: Replicas | None = None) -> None:
    """Compiles a model for its task, and creates every variable that a checkpoint holds.

    Args:
      task: what the model is trained for.
      model: built within the scope of the replicas.
      replicas: of the model; None for the default device.
    """
    training = task.config.training
    jit_compile = uses_xla(training)
    with replicas.scope() if replicas else nullcontext():
        optimizer = build_optimizer(training, model, replicas)
    # The metrics are created outside: they hold the loss of all replicas.
    model.compile(optimizer=optimizer, jit_compile=jit_compile, **task.objective())
    task.set_model(model, replicas)


def export_best(run: Run, task: Task) -> dict[str, Any]:
    """Writes the best model into the run: for Keras, as a SavedModel and as a portable file.

    If one of the last two cannot be written, a warning says why. TensorFlow runs the model all the same.

    Returns:
      Final scores of the model; see `Task.final_scores`.
    Raises:
      OSError: the model cannot be written for Keras.
    """
    best = run.load_model()
    with (
        OptionalOutput(run.saved_model_folder.name).writing(),
        atomic_folder(run.saved_model_folder, replace=True) as folder,
    ):
        build_text_module(best, task.corpus.tokenizer).save(folder)
    with OptionalOutput(run.portable_file.name).writing():
        write_run_file(run, run.portable_file, weights=best.get_weights())
    # Last: if this file exists, the others are written, or cannot be.
    save_model(best, run.model_file)
    return task.final_scores(best)


def _check_arguments(
    config: object, run: object, resume_from: str | Path | None, callbacks: object
) -> None:
    if not isinstance(config, Config | Mapping | str | Path | None):
        raise TypeError(
            "`config` should be a Config, a dictionary, a path or the name of a shipped configuration. "
            f"Received: {config!r}"
        )
    if not isinstance(callbacks, Sequence) or not all(
        isinstance(callback, keras.callbacks.Callback) for callback in callbacks
    ):
        raise TypeError(
            f"`callbacks` should be a list of keras.callbacks.Callback. Received: {callbacks!r}"
        )
    if resume_from is not None:
        as_path("resume_from", resume_from)
    if resume_from is not None and not (config is None and run is None):
        message = "cannot be combined with `config` or `run`; the run has its own"
        raise UserError(ArgumentProblem("resume_from", resume_from, message))
