"""A training goes on where it was interrupted, or beyond where it ended."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from minigpt.config import Config, load_config
from minigpt.errors import UserError
from minigpt.interrupts import stop_if_interrupted
from minigpt.models import GPT, build_model
from minigpt.models.lora import enable_lora
from minigpt.notices import notices_to
from minigpt.runs.checkpoints import (
    BrokenCheckpointError,
    Checkpoint,
    checkpoint_paths,
    newest_checkpoint,
    read_checkpoint,
    remove_checkpoints,
)
from minigpt.runs.corpus import open_run_corpus
from minigpt.runs.lock import run_lock
from minigpt.runs.run import Run
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.console import new_console
from minigpt.training.device import set_up_device
from minigpt.training.fine_tuning import starting_point
from minigpt.training.memory_check import enough_memory
from minigpt.training.session import Session, build_task, compile_model, plan_goes_on
from minigpt.training.summary import describe
from minigpt.training.tasks.task import Task

# Of [training]; with all of [sampling]. The rest is what the state is the state of.
CHANGEABLE = {
    "epochs",
    "max_minutes",
    "learning_rate",
    "schedule",
    "warmup_steps",
    "adam_beta_2",
    "weight_decay",
    "clip_norm",
    "label_smoothing",
    "early_stopping_patience",
    "checkpoint_every_steps",
    "checkpoint_every_seconds",
    "keep_checkpoints",
    "device",
    "deterministic",
}


def resume(
    run: str | Path,
    changes: Sequence[str] = (),
    *,
    command: str = "minigpt",
    console: Console | None = None,
) -> Run:
    """Goes on with a training from its newest sound checkpoint, or from its first step.

    With `training.deterministic` on a CPU it ends with the same bytes in every weight and optimizer slot,
    the same metrics (timings aside) and the same samples as one that was never interrupted.

    Args:
      run: a run directory that `train` made.
      changes: `"SECTION.KEY=VALUE"` strings, such as `training.epochs=9`, which extends a training. The
        learning rate then is what it would be had the change been there from the beginning.
      command: how the user calls minigpt, for the closing line.
      console: where to print; standard output if None.
    Returns:
      The finished run.
    Raises:
      UserError: there is no such run, another process trains in it, a setting cannot change, the text has
        changed, or no checkpoint is sound.
      KeyboardInterrupt: after Ctrl-C, with the state saved.
    """
    console = console or new_console()
    found = Run(run)
    if not found.corpus_file.is_file():
        raise UserError(
            f"RUN {found.path}: was imported, not trained; use --set training.init_from={found.path}"
        )
    if found.checkpoints_folder.is_symlink():
        # It may lead to those of another run, which its lock does not protect.
        raise UserError(f"RUN {found.path}: its checkpoints is a link; should be a folder")
    with run_lock(found.path):
        return _resume(found, changes, command, console)


def _resume(run: Run, changes: Sequence[str], command: str, console: Console) -> Run:
    config = load_config(run.config_file, changes)
    checkpoint = _newest(run, console)
    before = load_config(checkpoint.progress.config) if checkpoint else run.config
    taken = _changed(run, before, config)
    for line in taken:
        console.print(line)
    config = _with_given_plan(config, checkpoint)
    stop_if_interrupted()

    device = set_up_device(config.training)
    with notices_to(console.print):
        corpus = open_run_corpus(run)
    if corpus is None:
        raise UserError(
            f"RUN {run.path}: its text (data.source = {config.data.source!r}) has changed since the "
            "training began; should be as it was, or a new run be made"
        )
    task = build_task(config, corpus)
    with enough_memory(task.config, corpus.tokenizer.vocab_size):
        _go_on(run, task, checkpoint, device, command, console)
    return run


def _go_on(
    run: Run,
    task: Task,
    checkpoint: Checkpoint | None,
    device: str,
    command: str,
    console: Console,
) -> None:
    model = _build(task, begun=checkpoint is not None)
    compile_model(task, model)
    session = Session(run, task, model, checkpoint, console, command)
    if session.is_over and run.model_file.is_file() and run.saved_model_folder.is_dir():
        console.print(_how_to_extend(session, command))
        return
    stop_if_interrupted()
    with session.failed_writes_told():
        _forget_what_came_later(run, session.checkpointing, checkpoint)
        run.replace_config(session.checkpointing.config_with_plan())
        if not session.is_over:
            console.print(describe(task, model, device))
            where = (
                f"from {checkpoint.path}"
                if checkpoint
                else "from the beginning: no state was saved"
            )
            console.print(
                f"Run         {run.path}\nResuming    at step {session.clock.step:,} of "
                f"{session.clock.end:,}, {where}"
            )
            session.fit()
        session.export()


def _how_to_extend(session: Session, command: str) -> str:
    training, path = session.training, session.run.path
    more = []
    if session.checkpointing.epoch >= training.epochs:
        more.append(f"training.epochs={training.epochs + 1}")
    if session.best.given_up:
        more.append(f"training.early_stopping_patience={session.best.epochs_since + 1}")
    if session.plan.changes and training.max_minutes:
        more.append(f"training.max_minutes={2 * training.max_minutes:g}")
    return (
        f"{path} has ended at step {session.clock.step:,}. To go on: {command} train --resume "
        f"{shlex.quote(str(path))}" + "".join(f" --set {setting}" for setting in more)
    )


def _newest(run: Run, console: Console) -> Checkpoint | None:
    """The newest sound checkpoint, without its best if that is lost; None where there never was one."""
    folder = run.checkpoints_folder
    with notices_to(console.print):
        found = newest_checkpoint(folder)
    if found is None:
        if broken := checkpoint_paths(folder):
            raise UserError(
                f"{folder}: none of {len(broken)} checkpoints is sound; should hold one, or be empty "
                "to begin again"
            )
        if run.model_file.exists():
            raise UserError(
                f"RUN {run.path}: has a finished model and no checkpoint to go on from; a new run can "
                f"start from it: --set training.init_from={run.path}"
            )
        return None
    best = found.progress.best
    # An earlier end of this training left the best model.
    if best and best.checkpoint != found.path.name and not run.model_file.is_file():
        path = folder / best.checkpoint
        try:
            read_checkpoint(path)
        except BrokenCheckpointError as broken:
            console.print(f"{path}: the best so far is broken, and forgotten: {broken}")
            return replace(found, progress=found.progress.model_copy(update={"best": None}))
    return found


def _changed(run: Run, before: Config, config: Config) -> list[str]:
    """A line for every setting that is another now.

    Raises:
      UserError: some of them cannot change; a line each.
    """
    taken, refused = [], []
    old, new = _settings(before), _settings(config)
    for name, value in new.items():
        section, key = name.split(".")
        if value == old[name] or name == "training.step_limits":
            continue
        if section == "sampling" or (section == "training" and key in CHANGEABLE):
            taken.append(f"{name} = {value!r} from now on; it was {old[name]!r}")
        else:
            refused.append(
                f"{name} = {value!r}: cannot change; RUN {run.path} was begun with {old[name]!r}"
            )
    if refused:
        raise UserError(*refused)
    return taken


def _settings(config: Config) -> dict[str, Any]:
    return {
        f"{section}.{key}": value
        for section, settings in config.model_dump().items()
        for key, value in settings.items()
    }


def _with_given_plan(config: Config, checkpoint: Checkpoint | None) -> Config:
    """The plan that the user gave, not what the clock has made of it since."""
    if checkpoint is None:
        # The clock's is written with the first checkpoint.
        return config
    given = checkpoint.progress.given_plan if plan_goes_on(checkpoint, config) else []
    return config.model_copy(
        update={"training": config.training.model_copy(update={"step_limits": given})}
    )


def _build(task: Task, begun: bool) -> keras.Model:
    """The model as it was before its first step; not its values, if those are in a checkpoint."""
    config, vocab_size = task.config, task.corpus.tokenizer.vocab_size
    training = config.training
    if not begun and (start := starting_point(config)):
        return start.build_model()
    model = build_model(config.model, vocab_size, training.precision)
    if training.lora_rank:
        assert isinstance(model, GPT)
        enable_lora(model, training.lora_rank)
    return model


def _forget_what_came_later(
    run: Run, checkpointing: Checkpointing, checkpoint: Checkpoint | None
) -> None:
    """Cuts off what a training wrote behind its last checkpoint: it is done again."""
    run.remove_unfinished()
    for file in (run.metrics_file, run.samples_file):
        run.cut_lines(file, checkpointing.epoch)
    # Its owner may have removed it, to begin again.
    run.checkpoints_folder.mkdir(exist_ok=True)
    names = [path.name for path in checkpoint_paths(run.checkpoints_folder)]
    if checkpoint and names[-1] == checkpoint.path.name:
        # It may have been killed just before that.
        checkpointing.remove_old(names[-1])
    else:
        # Broken ones stay, to be looked at, until the next one is written.
        remove_checkpoints(run.checkpoints_folder, keep=names)
