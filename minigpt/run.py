"""What a training leaves on disk, and how it is opened again.

config.toml      every setting, resolved: training from it again gives the same run
corpus.json      fingerprint of the text and its split
tokenizer/
checkpoints/     last.keras and best.keras (by validation loss), with the optimizer's state
metrics.jsonl    one object an epoch
samples.jsonl    what it wrote after each epoch
model.keras      the best model
saved_model/     the same, text to text, for programs that have no minigpt
"""

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import keras

from minigpt.config import Config, dump_config, load_config
from minigpt.errors import UserError
from minigpt.models import GPT, EncoderDecoder
from minigpt.models.lora import add_factors, restore_factors
from minigpt.run_path import refuse_taken
from minigpt.tokenizers import Tokenizer, load_tokenizer


class Run:
    """A run directory.

    Args:
      path: an existing run directory.
    Raises:
      UserError: if there is no run at `path`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.toml"
        self.corpus_file = self.path / "corpus.json"
        self.tokenizer_folder = self.path / "tokenizer"
        self.metrics_file = self.path / "metrics.jsonl"
        self.samples_file = self.path / "samples.jsonl"
        self.last_checkpoint = self.path / "checkpoints" / "last.keras"
        self.best_checkpoint = self.path / "checkpoints" / "best.keras"
        self.model_file = self.path / "model.keras"
        self.saved_model_folder = self.path / "saved_model"
        if not self.config_file.is_file():
            what = "is a file" if self.path.is_file() else "does not exist"
            what = "holds no config.toml" if self.path.is_dir() else what
            raise UserError(
                f"RUN {self.path}: {what}; should be a run directory that `minigpt train` made"
            )

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @classmethod
    def create(
        cls,
        path: Path,
        config: Config,
        tokenizer: Tokenizer,
        corpus: dict[str, Any] | None,
        model: GPT | None = None,
    ) -> "Run":
        """Makes a run directory with its config, tokenizer and corpus record; all of it or nothing.

        Args:
          path: new or empty.
          config: every setting.
          tokenizer: the model's.
          corpus: the record of the text; None for a model that was not trained here.
          model: one that is finished already.
        Raises:
          UserError: if there is something at `path` already, or it cannot be written.
        """
        refuse_taken(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            (temporary / "checkpoints").mkdir(parents=True)
            (temporary / "config.toml").write_text(dump_config(config), encoding="utf-8")
            if corpus is not None:
                (temporary / "corpus.json").write_text(json.dumps(corpus, indent=2) + "\n")
            tokenizer.save(temporary / "tokenizer")
            if model is not None:
                save_model(model, temporary / "model.keras")
            # Fails if another process has put a run there in the meantime.
            os.rename(temporary, path)
        except OSError as error:
            raise UserError(f"--run {path}: cannot be written: {error.strerror or error}") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return cls(path)

    def replace_config(self, config: Config) -> None:
        """Writes config.toml anew; at every moment it is either the old or the new one."""
        temporary = self.path / f".config.{os.getpid()}.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(dump_config(config))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.config_file)

    @property
    def config(self) -> Config:
        return load_config(self.config_file)

    @property
    def corpus(self) -> dict[str, Any]:
        """What `create` was given.

        Raises:
          UserError: the file is missing or damaged.
        """
        try:
            return {"fingerprint": json.loads(self.corpus_file.read_text())["fingerprint"]}
        except OSError as error:
            raise UserError(f"{self.corpus_file}: {error.strerror or error}") from None
        except (ValueError, TypeError, KeyError):
            raise UserError(f"{self.corpus_file}: damaged, not what training wrote") from None

    def load_tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.tokenizer_folder)

    def load_model(self) -> GPT | EncoderDecoder:
        """The best model by validation loss; the last one if no epoch was finished.

        Raises:
          UserError: if there is no finished checkpoint, or it cannot be read.
        """
        for checkpoint in (self.model_file, self.best_checkpoint, self.last_checkpoint):
            if checkpoint.is_file():
                if not zipfile.is_zipfile(checkpoint):
                    raise UserError(f"{checkpoint}: damaged, not a whole .keras file")
                try:
                    return keras.models.load_model(checkpoint, compile=False)
                except (ValueError, OSError, KeyError) as error:
                    reason = str(error).splitlines()[0]
                    raise UserError(f"{checkpoint}: not a readable model: {reason}") from None
        raise UserError(
            f"RUN {self.path}: has no finished checkpoint; train it for at least one epoch"
        )

    def append(self, file: Path, record: dict[str, Any]) -> None:
        """Adds one JSON line to one of the run's files."""
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record, ensure_ascii=False) + "\n")
            lines.flush()
            os.fsync(lines.fileno())


def save_model(model: keras.Model, path: Path) -> None:
    """Writes a `.keras` file whole or not at all; with the optimizer's state if there is one.

    The file of a model with LoRA holds the merged weights, and what `load_state` needs.
    """
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp.keras")
    try:
        model.save(temporary)
        add_factors(model, temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_state(model: keras.Model, path: Path) -> None:
    """Reads what `save_model` wrote into a model built, compiled and LoRA-enabled as that one was.

    Weights, LoRA's factors and the optimizer's state are then what they were, to the bit.
    """
    model.load_weights(path)
    restore_factors(model, path)
