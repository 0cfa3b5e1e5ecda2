"""The run directory: everything that training writes, and how it is opened again.

config.toml      every setting, resolved: training from it again gives the same run
corpus.json      fingerprint of the text and its split; tokenizer/: the files of the tokenizer
checkpoints/     the newest states and the best by validation loss; see `checkpoints`
metrics.jsonl    the scores of each validation
samples.jsonl    the samples written after each epoch
steps.jsonl      training loss, learning rate, speed and memory during the epochs
analysis.json    baselines, memorization, verdicts of the doctor
report.html      all of this as a page; tensorboard/: files for TensorBoard, with training.tensorboard
certificates/    how each export compares with the run, one file per export
snapshots/       the weights after updates 0, 1, 3, 10, 30, ..., as portable files
facts.json       the sizes and the baselines; see `records`
model.keras      the best model, after training; saved_model/: the same for programs without minigpt
model.gguf       the same model with its tokenizer in one portable file
lock             held by the process that trains
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from minigpt.config import Config, LearnedConfig, dump_config, load_config
from minigpt.errors import UserError, as_path
from minigpt.runs import layout
from minigpt.runs.analysis import Analysis, read_analysis
from minigpt.runs.checkpoints import Checkpoint, best_checkpoint
from minigpt.runs.records import Facts, read_object
from minigpt.storage.atomic import atomic_folder, replace_file
from minigpt.storage.files import read_file
from minigpt.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    import keras

    from minigpt.corpus.token_store import Corpus
    from minigpt.models import GPT, EncoderDecoder


class Run:
    """A run directory.

    Args:
      path: an existing run directory.
    Raises:
      UserError: there is no run at `path`.
      TypeError: `path` is not a path.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = as_path("run", path)
        self.config_file = self.path / "config.toml"
        self.corpus_file = self.path / "corpus.json"
        self.tokenizer_folder = self.path / "tokenizer"
        self.metrics_file = self.path / "metrics.jsonl"
        self.samples_file = self.path / "samples.jsonl"
        self.steps_file = self.path / "steps.jsonl"
        self.analysis_file = self.path / "analysis.json"
        self.report_file = self.path / "report.html"
        self.tensorboard_folder = self.path / "tensorboard"
        self.facts_file = self.path / "facts.json"
        self.snapshots_folder = self.path / "snapshots"
        self.checkpoints_folder = self.path / "checkpoints"
        self.model_file = self.path / "model.keras"
        self.saved_model_folder = self.path / "saved_model"
        self.portable_file = self.path / layout.PORTABLE_FILE
        self.certificates_folder = self.path / "certificates"
        layout.check_run(self.path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @classmethod
    def create(
        cls,
        path: Path,
        config: Config,
        tokenizer: Tokenizer,
        corpus: dict[str, Any] | None,
        model: "keras.Model | None" = None,
        facts: Facts | None = None,
    ) -> "Run":
        """Creates a run directory with configuration, tokenizer and corpus record, atomically.

        Args:
          path: a new or empty directory; its parents are created.
          config, tokenizer: every setting, and the model's tokenizer.
          corpus: the record of the text; None for a model that was not trained by minigpt.
          model: a trained model; None if the run is to be trained.
          facts: the facts about the run before its first step.
        Raises:
          UserError: something exists at `path`, or it cannot be written.
        """
        path = path if path.name else path.absolute()
        layout.check_new_run(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_folder(path) as unfinished:
                (unfinished / "checkpoints").mkdir()
                (unfinished / "config.toml").write_text(dump_config(config), encoding="utf-8")
                if corpus is not None:
                    (unfinished / "corpus.json").write_text(json.dumps(corpus, indent=2) + "\n")
                if facts is not None:
                    text = facts.model_dump_json(indent=2) + "\n"
                    (unfinished / "facts.json").write_text(text, encoding="utf-8")
                tokenizer.save(unfinished / "tokenizer")
                if model is not None:
                    model.save(unfinished / "model.keras")
        except OSError as error:
            raise layout.run_error(path, f"cannot be written: {error.strerror or error}") from None
        return cls(path)

    @classmethod
    def create_numbered(
        cls, name: str, *content: Any, folder: Path = Path("runs"), **rest: Any
    ) -> "Run":
        """Creates `folder/NAME-N` with the first free number N; the other arguments are those of `create`.

        If several processes call this at the same time, each gets its own directory.
        """
        while True:
            path = layout.new_run_path(name, folder)
            try:
                return cls.create(path, *content, **rest)
            except UserError:
                # Otherwise another process has created it in the meantime.
                if not os.path.lexists(path):
                    raise

    def replace_config(self, config: Config) -> None:
        """Replaces config.toml atomically."""
        replace_file(self.config_file, dump_config(config).encode())

    @property
    def config(self) -> Config:
        """Every setting of the run."""
        return load_config(self.config_file)

    @property
    def corpus(self) -> dict[str, Any]:
        """The record of the text that was given to `create`; a `UserError` if it is missing or damaged."""
        try:
            return {"fingerprint": json.loads(read_file(self.corpus_file))["fingerprint"]}
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise UserError(f"{self.corpus_file}: damaged or missing: {error}") from None

    @property
    def facts(self) -> dict[str, Any]:
        """The facts about the run before its first step, with the names of `runs.records.Facts`.

        {} if the file is missing or damaged; imported runs have none.
        """
        try:
            return Facts.model_validate(read_object(self.facts_file)).model_dump()
        except ValidationError:
            return {}

    @property
    def analysis(self) -> Analysis:
        """The content of analysis.json; empty if it is missing or, with a warning, damaged."""
        return read_analysis(self.analysis_file)

    def snapshots(self) -> dict[int, Path]:
        """Returns the portable files of the weights after updates 0, 1, 3, 10, 30, ... by their number.

        See `training.keep_snapshots`.
        """
        return layout.snapshots(self.snapshots_folder)

    def load_tokenizer(self) -> Tokenizer:
        """Loads the run's tokenizer; a `UserError` if its files are missing or damaged."""
        return Tokenizer.load(self.tokenizer_folder)

    def load_model(self, checkpoint: Checkpoint | None = None) -> "GPT | EncoderDecoder":
        """Loads the model of a checkpoint; by default the best one, or the newest if no epoch has ended.

        Logs a warning for each damaged checkpoint, and for the one that is used instead.

        Raises:
          UserError: there is no checkpoint, or it cannot be read.
        """
        # These import TensorFlow.
        from minigpt.models import GPT, build_model
        from minigpt.models.lora import enable_lora, merged_weights
        from minigpt.models.memory_estimate import check_model_fits
        from minigpt.models.state import assign

        if checkpoint is None and not self.model_file.is_file():
            checkpoint = self.best_checkpoint()
        config, tokenizer = self.config, self.load_tokenizer()
        check_model_fits(config.model, tokenizer.vocab_size)
        model = build_model(config.model, tokenizer.vocab_size, config.training.precision)
        if checkpoint is None:
            # Only the weights are read: the file may come from someone else and describe other layers.
            try:
                model.load_weights(self.model_file)
            # zipfile, HDF5 and Keras raise many kinds of exceptions for a damaged file.
            except Exception as error:
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                raise UserError(f"{self.model_file}: not a readable model: {reason}") from None
            return model
        trained = model
        if rank := config.training.lora_rank:
            # Merged in float32, so that the weights are not rounded again.
            trained = GPT(config.model, tokenizer.vocab_size)
            enable_lora(trained, rank, tokenizer.dialogue_tokens)
        try:
            assign(trained.weights, checkpoint.weights)
        except ValueError:
            problem = f"its arrays do not fit the model of {self.config_file}"
            raise UserError(f"{checkpoint.path}: {problem}") from None
        if rank:
            model.set_weights(merged_weights(trained))
        return model

    def best_checkpoint(self) -> Checkpoint:
        """Reads the best checkpoint: see `runs.checkpoints`. A `UserError` if there is no undamaged one."""
        checkpoint = best_checkpoint(self.checkpoints_folder)
        if checkpoint is None:
            problem = "has no checkpoint; train it for at least one epoch"
            if damaged := layout.checkpoint_paths(self.checkpoints_folder):
                problem = f"all of its {len(damaged)} checkpoints are damaged"
            raise layout.run_error(self.path, problem)
        return checkpoint


def as_run(run: Run | str | Path) -> Run:
    """Returns a run; opens it if its directory is given."""
    return run if isinstance(run, Run) else Run(run)


def open_run_corpus(run: Run) -> "Corpus":
    """Returns the token ids that a run is trained on.

    Raises:
      UserError: the run was imported, its text has changed since training or cannot be read, or
        corpus.json is damaged.
    """
    from minigpt.corpus.token_store import reopen_corpus

    if not run.corpus_file.is_file():
        raise layout.run_error(run.path, "was imported; its training text is unknown")
    config, tokenizer = run.config, run.load_tokenizer()
    # A tokenizer that was not learned from the text is read from the run instead of downloaded again.
    learned = config.training.init_from is None and isinstance(config.tokenizer, LearnedConfig)
    existing = None if learned else tokenizer
    corpus = reopen_corpus(config.data, config.tokenizer, existing, run.corpus["fingerprint"])
    if corpus is None:
        source = config.data.source
        raise layout.run_error(
            run.path, f"its text (data.source = {source!r}) has changed since training"
        )
    # The tokenizer of the run knows whether its vocabulary has a beginning-of-sentence token.
    return replace(corpus, tokenizer=tokenizer)
