"""Joins training with what is around it: portable files, the report, TensorBoard, several devices."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from minigpt.config import Config
from minigpt.config.overrides import check_overrides
from minigpt.distribution.devices import Devices
from minigpt.insight.reporter import Reporter
from minigpt.insight.tensorboard import TensorBoard
from minigpt.runs.run import Run, as_run
from minigpt.targets.run_files import (
    EpochFiles,
    HuggingFaceNotice,
    PortableFile,
    SavedModelFolder,
)
from minigpt.training import pipeline
from minigpt.training.hooks import Hook


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
    return pipeline.train(
        config,
        run,
        resume_from=resume_from,
        overrides=overrides,
        callbacks=callbacks,
        name=name,
        command=command,
        command_line=command_line,
        console=console,
        hooks=run_hooks(command),
        strategy=Devices(),
    )


def run_hooks(command: str = "minigpt") -> list[Hook]:
    """Returns what every run has beside its training.

    Args:
      command: how the user calls minigpt, for the suggested commands.
    """
    return [
        HuggingFaceNotice(),
        TensorBoard(),
        EpochFiles(),
        SavedModelFolder(),
        PortableFile(),
        Reporter(command),
    ]


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
