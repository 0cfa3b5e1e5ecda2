"""The start of training: a new run, or the newest checkpoint of an earlier one."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minigpt.config import (
    Config,
    DialoguesConfig,
    FilesConfig,
    IdsConfig,
    PairsConfig,
    TokenizerConfig,
    TrainingConfig,
    load_config,
)
from minigpt.config.beginning import AUTO, HELPS_BELOW, base_helps, what_to_expect, why_from_nothing
from minigpt.config.complete import (
    REFERENCE_SPEED,
    Completed,
    TextSize,
    complete,
    settings_to_choose,
)
from minigpt.config.loading import FORMAT, Overrides, check_strings, load_new_config
from minigpt.corpus.sources import Text, read_own, read_text
from minigpt.corpus.token_ids import IdFiles, tokenizer_of_ids
from minigpt.corpus.token_store import Corpus, given_tokenizer, open_corpus
from minigpt.errors import ArgumentProblem, UserError, as_path
from minigpt.evaluation.base_scores import bits_before_training
from minigpt.notices import LOGGER
from minigpt.runs import checkpoints, layout
from minigpt.runs.base_file import BaseFile, run_or_file
from minigpt.runs.lock import run_lock
from minigpt.runs.records import Facts, cut_lines
from minigpt.runs.run import Run, open_run_corpus
from minigpt.storage.atomic import remove_abandoned
from minigpt.training.checkpointing import Checkpointing
from minigpt.training.strategy import probe_speed
from minigpt.training.tasks.task import Task

# Settings of [training] that may change. All settings of [sampling] may change. The other settings
# determine the weights and the optimizer's state.
CHANGEABLE = {
    *("epochs", "max_minutes", "learning_rate", "schedule", "min_learning_rate", "warmup_steps"),
    *("adam_beta_2", "adam_epsilon", "weight_decay", "clip_norm", "label_smoothing"),
    *("eval_every_steps", "sample_every_steps", "early_stopping_patience"),
    *("checkpoint_every_steps", "checkpoint_every_seconds", "keep_checkpoints", "keep_snapshots"),
    *("tensorboard", "device", "devices", "workers", "jit_compile", "deterministic"),
}

START_FROM_IT = "a new run can start from it: set training.init_from"

# A text of fewer bytes may be a token or two of a base.
_LEAST_FOR_A_BASE = 30


@dataclass(frozen=True)
class Start:
    """The start of training, of a new run or of one that is resumed.

    Attributes:
      config: the settings, complete.
      run: the run that is resumed, locked for this process; None for a new run.
      checkpoint: the state to resume from; None for the first step.
      path: the directory of a new run; `runs/NAME-N` if None.
      name: NAME.
      completed: the settings of a new run, with their origins.
      text: the text, if it was read to choose them.
    """

    config: Config
    run: Run | None = None
    checkpoint: checkpoints.Checkpoint | None = None
    path: Path | None = None
    name: str = "run"
    completed: Completed | None = None
    text: Text | None = None

    def open_corpus(self) -> Corpus:
        """Returns the token ids to train on.

        Raises:
          UserError: the text cannot be used, or has changed since the run began.
        """
        if self.run is None:
            source = starting_model(self.config)
            tokenizer = source.load_tokenizer() if source else None
            return open_corpus(self.config.data, self.config.tokenizer, tokenizer, self.text)
        return open_run_corpus(self.run)

    @contextmanager
    def run_directory(self, task: Task, facts: Facts) -> Iterator[Run]:
        """Yields the run directory, which is locked for this process. A new one holds `facts`."""
        if self.run is not None:
            yield self.run
            return
        corpus = task.corpus
        content = (task.config, corpus.tokenizer, {"fingerprint": corpus.fingerprint})
        if self.path:
            run = Run.create(self.path, *content, facts=facts)
        else:
            run = Run.create_numbered(self.name, *content, facts=facts)
        with run_lock(run.path):
            yield run

    def discard_later_results(self, checkpointing: Checkpointing) -> None:
        """Removes the results that are later than the checkpoint, and records the settings."""
        run, checkpoint = self.run, self.checkpoint
        if run is None:
            return
        remove_abandoned(run.path)
        for file in (run.metrics_file, run.samples_file):
            cut_lines(file, checkpointing.epochs_done if checkpoint else -1)
        cut_lines(run.steps_file, checkpointing.clock.step, "step")
        layout.remove_later_snapshots(run.snapshots_folder, checkpointing.clock.step)
        # The user may have removed the folder to start again.
        run.checkpoints_folder.mkdir(exist_ok=True)
        names = [path.name for path in layout.checkpoint_paths(run.checkpoints_folder)]
        if checkpoint and names[-1] == checkpoint.path.name:
            # The process may have been killed just before it removed them.
            checkpointing.remove_old(names[-1])
        else:
            # Damaged ones are kept for inspection until the next checkpoint is written.
            checkpoints.remove_checkpoints(run.checkpoints_folder, keep=names)
        checkpointing.write_limits()

    def describe(self, run: Run, step: int, end: int) -> str:
        """Returns the lines about the run directory and the first step that precede training."""
        line, source = f"Run         {run.path}", "the beginning: no checkpoint was saved"
        if self.run is None:
            return line
        source = str(self.checkpoint.path) if self.checkpoint else source
        return f"{line}\nResuming    at step {step:,} of {end:,}, from {source}"


def new_training(
    config: Config | Mapping[str, Any] | str | Path | None,
    overrides: Overrides,
    run: str | Path | None,
    name: str | None,
    is_first: bool = True,
    is_alone: bool = True,
    base: str | Path | Run | None = None,
    text: str | Path | Sequence[str | Path] | None = None,
) -> Start:
    """Checks the settings and the run directory of a new run. The arguments are those of `train`.

    Args:
      is_first: whether this process is the first of several workers, which creates the directory.
      is_alone: whether there are no other workers, which would measure another speed.
    Raises:
      UserError: a setting or the directory cannot be used.
      TypeError: an argument has the wrong type.
    """
    base = base.path if isinstance(base, Run) else base
    if not isinstance(base, str | Path | None):
        raise TypeError(f"`base` must be a run, a path or the name of a base. Received: {base!r}")
    if not isinstance(config, Config | Mapping | str | Path | None):
        raise TypeError(
            "`config` should be a Config, a dictionary, a path or the name of a shipped configuration. "
            f"Received: {config!r}"
        )
    if not isinstance(name, str | None):
        raise TypeError(f"`name` must be a string. Received: {name!r}")
    paths = [text] if isinstance(text, str | Path) else text or ()
    if text is not None and not paths:
        raise UserError(ArgumentProblem("text", text, "should have at least one path"))
    check_strings("text", paths)
    name = name or layout.run_name(config, paths)
    if isinstance(config, Config) and (overrides or base is not None or paths):
        config = {"format": FORMAT} | config.model_dump(exclude_unset=True)
    if not isinstance(config, Config):
        config = load_new_config(config, overrides, paths, base)
    path = None if run in (None, "") else as_path("run", run)
    if is_first:
        layout.check_new_run(path or layout.new_run_path(name))
    completed, read = complete_settings(config, measures_speed=is_alone)
    return Start(completed.config, path=path, name=name, completed=completed, text=read)


def config_for_text(paths: Sequence[str], overrides: Sequence[str] = ()) -> Config:
    """Returns settings that suit the text of some files, as `train` chooses them.

    Args:
      paths: files, folders, globs, as `data.paths`.
      overrides: `"SECTION.KEY=VALUE"` strings; what they set is not chosen.
    Raises:
      UserError: if the text cannot be read, or an override is wrong.
    """
    if isinstance(paths, str) or not paths:
        problem = "should be a list of paths, such as ['book.txt']"
        raise UserError(ArgumentProblem("paths", paths, problem))
    completed = complete_settings(load_new_config(None, overrides, list(map(str, paths))))[0]
    for line in completed.in_words():
        LOGGER.info("%s", line)
    return completed.config


def complete_settings(
    config: Config, *, measures_speed: bool = True
) -> tuple[Completed, Text | None]:
    """Fills in what the user has not set, by the text's size, the time limit and the machine's speed.

    Args:
      measures_speed: whether this machine is measured. If not, its speed is `REFERENCE_SPEED`, so that
        all machines choose the same.
    Returns:
      The settings; and the text, if it was read: to choose something for it, or to recognize dialogues.
    Raises:
      UserError: the text or the run to start from cannot be used, or a setting contradicts the run.
    """
    is_auto = config.training.init_from == AUTO
    sources, line = _sources(config)
    name, bits = next(iter(sources), None), None
    config = config.with_training(init_from=name)
    config, text, is_open = _with_own_text(config, is_open=is_auto and bool(sources))
    size, speed, gpus, data = None, REFERENCE_SPEED, 0, config.data
    if is_open and isinstance(data, IdsConfig):
        files = IdFiles(data.paths)
        count = sum(map(len, (files.train | files.val).values()))
        size = TextSize(count, count)
    elif is_open:
        text = text or read_text(data)
        size = text.size
        if sources:
            name, bits, line = _choose_source(sources, text, is_auto)
            config = config.with_training(init_from=name)
    if is_open and measures_speed and not isinstance(data, PairsConfig):
        speed, gpus = probe_speed(config.training)
    source = None if name is None else sources[name]
    known = bits[0] if source and bits else None
    source_config = source.config if source else None
    completed = complete(config, size, speed, gpus, source_config, known)
    if is_auto and size:
        chosen = {"training.init_from": f"chosen for {size.bytes:,} bytes of text"}
        completed = replace(completed, origins={**completed.origins, **chosen})
    is_own = data.source in ("files", "datasets", "dialogues")
    if text and is_own and (source is None or (bits and name in layout.bases())):
        measured = bits if source else None
        expected = what_to_expect(text.size.bytes, measured, data.source == "dialogues")
        line = f"{line}\n{expected}".strip()
    return replace(completed, beginning=line, bits=bits), text


def _sources(config: Config) -> tuple[dict[str, Run | BaseFile], str]:
    """Returns the models that training may start from, by their names; and a line if there is none."""
    name = config.training.init_from
    names: Iterable[str] = layout.bases() if name == AUTO else [] if name is None else [name]
    sources = {each: run_or_file(each, "training.init_from") for each in names}
    if name != AUTO:
        return sources, "".join(f"Starts from {_shown(each)}." for each in sources)
    reasons = {each: why_from_nothing(config, each, sources[each].config) for each in sources}
    usable = {each: source for each, source in sources.items() if not reasons[each]}
    reason = next(iter(reasons.values()), "no base is installed")
    return usable, "" if usable else f"Starts from nothing: {reason}."


def _with_own_text(config: Config, is_open: bool) -> tuple[Config, Text | None, bool]:
    """Returns the settings; the text, if it was read; and whether something is to be chosen for it.

    The settings then have the size of a given tokenizer's vocabulary, and say whether a text is dialogues.
    """
    can_read = isinstance(config.data, FilesConfig | DialoguesConfig)
    try:
        config = _with_given_tokenizer(config)
        is_open = is_open or bool(settings_to_choose(config))
    except UserError:
        # `open_corpus` reports the problem of the tokenizer together with those of the text.
        return config, None, False
    data: Any = config.data
    # Dialogues are recognized by their content. A complete configuration names its source.
    if not can_read or not (is_open or data.me):
        return config, None, is_open
    data, text = read_own(data)
    return config.model_copy(update={"data": data}), text, is_open


def _choose_source(
    sources: Mapping[str, Run | BaseFile], text: Text, is_auto: bool
) -> tuple[str | None, tuple[float, float] | None, str]:
    """Chooses the model to start from: the one that predicts the text best.

    Args:
      is_auto: whether training may also start from nothing.
    Returns:
      Its name, None for nothing; its `bits_before_training`; and a line that says why.
    """
    if is_auto and text.size.bytes < _LEAST_FOR_A_BASE:
        return None, None, "Starts from nothing: your text is too short for a base."
    found = [(_bits_before_training(each, text), name) for name, each in sources.items()]
    bits, name = min(found, key=lambda pair: pair[0] or (math.inf,))
    shown = _shown(name)
    if bits is None and not is_auto:
        return name, bits, f"Starts from {shown}."
    if bits is None:
        why = "its layers are of another kind"
        why = "your text is too short" if text.size.bytes < 100 else why
        return name, bits, f"Starts from {shown}: whether it helps was not measured, because {why}."
    before = f"predicts a sample of your text with {bits[0]:.1f} bits per byte before any "
    before += f"training, a 7-gram of the rest with {bits[1]:.1f}"
    if is_auto and not base_helps(*bits, text.size.bytes):
        limit = f" A base helps below {HELPS_BELOW:g} bits." * (bits[0] >= HELPS_BELOW)
        return None, bits, f"Starts from nothing: {shown} {before}.{limit}"
    end = ", and training lowers the first." if bits[0] > bits[1] else "."
    end = end if bits[0] < HELPS_BELOW else "; training from nothing should be better."
    return name, bits, f"Starts from {shown}: it {before}{end}"


def _shown(name: str | None) -> str:
    return f'the base "{name}"' if name in layout.bases() else str(name)


def _bits_before_training(source: Run | BaseFile, text: Text) -> tuple[float, float] | None:
    """Returns `bits_before_training` of a model to start from; None if a run has no weights for it."""
    if not isinstance(source, Run):
        return bits_before_training(source, text)
    with suppress(UserError):
        return bits_before_training(BaseFile(source.portable_file), text)
    with suppress(UserError):
        return bits_before_training(source, text)
    return None


def _with_given_tokenizer(config: Config) -> Config:
    """Returns settings with the size of the vocabulary of a tokenizer that is not learned."""
    tokenizer: TokenizerConfig = config.tokenizer
    if isinstance(config.data, IdsConfig) and config.training.init_from is None:
        tokenizer = tokenizer_of_ids(config.data, tokenizer)
    if not tokenizer.vocab_size and (given := given_tokenizer(tokenizer)):
        tokenizer = tokenizer.model_copy(update={"vocab_size": given.vocab_size})
    return config.model_copy(update={"tokenizer": tokenizer})


def starting_model(config: Config) -> Run | BaseFile | None:
    """Returns the run or the file that `training.init_from` names; None if training starts from nothing.

    Raises:
      UserError: it does not exist, or cannot be read.
    """
    name = config.training.init_from
    return None if name is None else run_or_file(name, "training.init_from")


@contextmanager
def resumed_training(
    path: str | Path, overrides: Sequence[str], is_first: bool = True
) -> Iterator[Start]:
    """Locks a run, reads its newest undamaged checkpoint, and checks the changed settings.

    Args:
      path, overrides: the run directory and the changed settings, as for `train`.
      is_first: whether this process is the first of several workers, which alone locks the run.
    Raises:
      UserError: the run cannot be resumed, or a setting cannot change.
    """
    run = Run(path)
    if not run.corpus_file.is_file():
        raise layout.run_error(run.path, f"was imported, not trained; {START_FROM_IT}")
    for folder in (run.checkpoints_folder, run.snapshots_folder):
        if folder.is_symlink():
            # The link may lead to the files of another run, which this run's lock does not protect.
            raise layout.run_error(
                run.path, f"its {folder.name} is a symbolic link; should be a folder"
            )
    with run_lock(run.path) if is_first else nullcontext():
        config = load_config(run.config_file, overrides)
        checkpoint = _newest_checkpoint(run)
        previous = load_config(checkpoint.progress.config) if checkpoint else run.config
        _check_changes(run, previous, config)
        if checkpoint:
            # The limits that the user gave, not those that the clock has set: they are written with the
            # first checkpoint.
            kept = keeps_limits(checkpoint, config)
            limits = checkpoint.progress.given_plan if kept else []
            config = config.with_training(step_limits=limits)
        yield Start(config, run, checkpoint)


def keeps_limits(checkpoint: checkpoints.Checkpoint, config: Config) -> bool:
    """Returns whether the step limits of a checkpoint are still valid: no setting asks for others."""
    previous, training = load_config(checkpoint.progress.config).training, config.training
    return (previous.epochs, previous.max_minutes) == (training.epochs, training.max_minutes)


def settings_to_extend(
    training: TrainingConfig, epoch: int, epochs_since_best: int, needs_time: bool
) -> list[str]:
    """Returns the smallest changes of settings with which training that has ended goes on.

    Args:
      epoch: epochs that have ended.
      epochs_since_best: those since the best one.
      needs_time: whether one more epoch would exceed the time limit.
    """
    settings = []
    if epoch >= training.epochs:
        settings.append(f"training.epochs={epoch + 1}")
    if training.early_stopping_patience and epochs_since_best >= training.early_stopping_patience:
        settings.append(f"training.early_stopping_patience={epochs_since_best + 1}")
    if needs_time and training.max_minutes:
        settings.append(f"training.max_minutes={2 * training.max_minutes:g}")
    return settings


def _newest_checkpoint(run: Run) -> checkpoints.Checkpoint | None:
    """Returns the newest undamaged checkpoint; None if there is none at all."""
    folder = run.checkpoints_folder
    found = checkpoints.newest_checkpoint(folder)
    if found is None and (broken := layout.checkpoint_paths(folder)):
        raise UserError(
            f"{folder}: contains no undamaged checkpoint ({len(broken)} are damaged); should contain "
            "one, or be empty to start from the first step"
        )
    if found is None and run.model_file.exists():
        problem = "has a finished model and no checkpoint to resume from"
        raise layout.run_error(run.path, f"{problem}; {START_FROM_IT}")
    return found


def _check_changes(run: Run, previous: Config, config: Config) -> None:
    """Logs every setting that has changed; a `UserError` with a line for each that cannot."""
    changes, problems = [], []
    old, new = previous.settings(), config.settings()
    for name, value in new.items():
        section, key = name.split(".")
        if name not in old or value == old[name] or name == "training.step_limits":
            continue
        if section == "sampling" or (section == "training" and key in CHANGEABLE):
            changes.append((name, old[name], value))
        else:
            problems.append(
                f"{name} = {value!r}: cannot change; the run {run.path} was started with {old[name]!r}"
            )
    if problems:
        raise UserError(*problems)
    for change in changes:
        LOGGER.info("%s changed from %r to %r", *change)
