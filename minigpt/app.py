"""Joins the core with the packages around it: exports, the report, TensorBoard, several devices."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from minigpt.config import Config
from minigpt.config.loading import Overrides
from minigpt.distribution.devices import Devices
from minigpt.environment import program_name
from minigpt.errors import UserError, as_path
from minigpt.insight.examination import Reporter
from minigpt.insight.report.report import write_report
from minigpt.notices import LOGGER
from minigpt.runs.base_file import BaseFile, run_or_file
from minigpt.runs.run import Run, as_run
from minigpt.targets.export import verify_export, write_export
from minigpt.targets.run_files import export_hooks
from minigpt.training import pipeline


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
    command: str | None = None,
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
        None for the default configuration, or settings chosen for `text`.
      text: a path or several: files, folders, globs, as `--text` of the command.
      minutes: the time limit of training, `training.max_minutes`.
      run: the run directory, new or empty; `runs/NAME-N` if None.
      base: what training starts from: the name of a base ("english"), a run, its directory, or a portable
        file; "auto" for the base of the package if it is measured to help, "none" for nothing. None for
        "auto" if only a text is given, and for the setting `training.init_from` otherwise.
      resume_from: a run directory. Training resumes from its newest undamaged checkpoint, or from its
        first step if there is none, with the run's settings; `config` and `run` must be None.
      overrides: `"SECTION.KEY=VALUE"` strings, such as `"training.epochs=9"`, or a dictionary. When
        training is resumed, all settings of `[sampling]` and some of `[training]` can change. The learning
        rate is then the same as if the setting had been changed at the beginning.
      callbacks: Keras callbacks. They see `val_loss` and the other scores in the logs of every epoch.
        See `minigpt.training.loop` for training that is resumed.
      name: NAME of the default run directory; the configuration's if None.
      command: how the user calls minigpt, for the suggested commands; found out if None.
      console: where to print; standard output if None.
    Returns:
      The finished run.
    Raises:
      UserError: a setting, the text or the directory cannot be used; a new run leaves no files. Or another
        worker differs or ends. Or the loss became nan or infinite, or the run cannot be written; earlier
        checkpoints stay. Or the run to resume does not exist, is in use by another process, or has no
        undamaged checkpoint.
      TypeError: an argument has the wrong type.
      KeyboardInterrupt: after Ctrl-C, with the state saved.
    """
    command = command or program_name()
    return pipeline.train(
        config,
        run,
        text=text,
        minutes=minutes,
        base=base,
        resume_from=resume_from,
        overrides=overrides,
        callbacks=callbacks,
        name=name,
        command=command,
        console=console,
        hooks=[*export_hooks(), Reporter(command)],
        strategy=Devices(),
    )


def resume(
    run: Run | str | Path,
    changes: Overrides = (),
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    command: str | None = None,
    console: Console | None = None,
) -> Run:
    """Resumes training from the newest undamaged checkpoint, or extends training that has ended.

    Equivalent to `train(resume_from=run, overrides=changes)`, which describes the arguments. `run` may
    also be a `Run`.
    """
    return train(
        resume_from=as_run(run).path,
        overrides=changes,
        callbacks=callbacks,
        command=command,
        console=console,
    )


def export_run(
    run: Run | str | Path,
    format: str,
    output: str | Path,
    *,
    weights: str = "float32",
    certificate: bool = False,
    with_text: bool = False,
) -> dict[str, Any] | None:
    """Writes a run's best model for other programs.

    Damaged checkpoints, and the one that is used instead, are logged as warnings.

    Args:
      run: a run, its directory, a portable file, or the name of a base ("english").
      format: one of `minigpt.targets.targets.TARGETS`.
      output: for "saved_model", "huggingface", "onnx" and "transformers_js", a new or empty folder; for
        the others, a new file.
      weights: how matrices are stored: "float32"; for "gguf", "html", "litert", "onnx" and
        "transformers_js" also "float16" or "int8".
      certificate: whether to compare what was written with the run. The certificate is written too:
        `certificate.json` in a folder, `NAME.certificate.json` next to a file. It is also recorded in the
        run directory, and the report of the run shows it.
      with_text: for "html": whether the page contains the training text, to show where it has what the
        model writes.
    Returns:
      The certificate; None without one.
    Raises:
      UserError: the run has no model, the format does not support the model or the text or needs a package
        that is not installed, the training text is not known any more, the output exists or cannot be
        written, or the certificate is outside the tolerance of the format. Nothing is written.
      ValueError: the format or the kind of weights is unknown, or the format has no other weights.
    """
    output, options = as_path("output", output), (weights, certificate, with_text)
    source = run_or_file(run)
    if isinstance(source, BaseFile):
        with source.as_run() as imported:
            return write_export(imported, format, output, *options)
    found = write_export(source, format, output, *options)
    if found:
        _update_report(source)
    return found


def verify(path: str | Path, against: Run | str | Path) -> dict[str, Any]:
    """Checks an exported file or folder, of any format, against the run it was made from.

    The certificate is also recorded in the run directory, and its report shows it.

    Args:
      path: the file or folder.
      against: the run, or its directory.
    Returns:
      A certificate. `certificate["problems"]` is empty if the export is within its tolerance.
    Raises:
      UserError: `path` is no export, or it or the run cannot be read.
      TypeError: an argument is not a path.
    """
    run = as_run(against)
    certificate = verify_export(as_path("path", path), run)
    _update_report(run)
    return certificate


def _update_report(run: Run) -> None:
    """Writes the report of a run anew, if there is one, so that it shows a new certificate."""
    try:
        if run.report_file.is_file():
            write_report([run], run.report_file)
    except UserError as error:
        LOGGER.warning("The report of %s will not show this certificate: %s", run.path, error)
