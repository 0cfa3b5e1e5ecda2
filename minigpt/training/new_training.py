"""The start of a new run."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minigpt.config import Config, load_config
from minigpt.config.record import FORMAT
from minigpt.corpus.fit import fit_to_text
from minigpt.corpus.store_files import Corpus
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError, as_path
from minigpt.runs.facts import Facts
from minigpt.runs.lock import run_lock
from minigpt.runs.paths import check_new_run, new_run_path
from minigpt.runs.run import Run
from minigpt.training.callbacks.checkpointing import Checkpointing
from minigpt.training.fine_tuning import FineTuning, fine_tuning
from minigpt.training.start import Start
from minigpt.training.tasks.task import Task


def new_training(
    config: Config | Mapping[str, Any] | str | Path | None,
    overrides: Sequence[str],
    run: str | Path | None,
    name: str | None,
    is_first: bool = True,
) -> "NewTraining":
    """Checks the settings and the run directory of a new run. The arguments are those of `train`.

    Args:
      is_first: whether this process is the first of several workers, which creates the directory.
    Raises:
      UserError: a setting or the directory cannot be used.
    """
    config = "default" if config is None else config
    if not isinstance(name, str | None):
        raise TypeError(f"`name` must be a string. Received: {name!r}")
    name = name or (Path(config).stem if isinstance(config, str | Path) else "run")
    if isinstance(config, Config) and overrides:
        config = {"format": FORMAT} | config.model_dump(exclude_unset=True)
    config = config if isinstance(config, Config) else load_config(config, overrides)
    path = None if run in (None, "") else as_path("run", run)
    if is_first:
        check_new_run(path or new_run_path(name))
    given, config = config, fit_to_text(config)
    start = fine_tuning(config)
    if start is None:
        check_trains_all_positions(config)
    return NewTraining(start.config if start else config, start, path, name, given)


def check_trains_all_positions(config: Config) -> None:
    """Raises a `UserError` if the table of learned positions is longer than the training sequences."""
    length, max_len = config.sequence_length, config.model.max_len
    if config.model.position == "learned" and config.data.source != "pairs" and length < max_len:
        raise UserError(
            f"training.sequence_length = {length}: should be model.max_len = {max_len} or unset: with "
            "model.position = 'learned' and without training.init_from, later positions are never trained"
        )


class NewTraining(Start):
    """The start of a new run.

    Args:
      config: the settings.
      fine_tuning: the run whose weights it starts from, if any.
      path: the run directory; `runs/NAME-N` if None.
      name: NAME.
      given: the settings before any were chosen for the text.
    """

    def __init__(
        self,
        config: Config,
        fine_tuning: FineTuning | None,
        path: Path | None,
        name: str,
        given: Config,
    ) -> None:
        super().__init__(config, fine_tuning)
        self.given = given
        self.path = path
        self.name = name

    def open_corpus(self) -> Corpus:
        tokenizer = self.fine_tuning.tokenizer if self.fine_tuning else None
        return open_corpus(self.config.data, self.config.tokenizer, tokenizer)

    @contextmanager
    def run_directory(self, task: Task, facts: Facts) -> Iterator[Run]:
        corpus = task.corpus
        content = (task.config, corpus.tokenizer, {"fingerprint": corpus.fingerprint})
        if self.path:
            run = Run.create(self.path, *content, facts=facts)
        else:
            run = Run.create_numbered(self.name, *content, facts=facts)
        with run_lock(run.path):
            yield run

    def discard_later_results(self, checkpointing: Checkpointing) -> None:
        pass  # A new run holds no results.
