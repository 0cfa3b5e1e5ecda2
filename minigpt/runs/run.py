"""What a training leaves on disk, and how it is opened again.

config.toml      every setting, resolved: training from it again gives the same run
corpus.json      fingerprint of the text and its split
tokenizer/
checkpoints/     the newest states and the best by validation loss; see `checkpoints`
metrics.jsonl    one object an epoch
samples.jsonl    what it wrote after each epoch
model.keras      the best model, when the training has ended
saved_model/     the same, text to text, for programs that have no minigpt
lock             held by the process that trains
"""

import glob
import json
import math
import os
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from minigpt.runs.checkpoints import (
    BrokenCheckpointError,
    Checkpoint,
    checkpoint_paths,
    newest_checkpoint,
    read_checkpoint,
)
from minigpt.config import Config, dump_config, load_config
from minigpt.storage.atomic import replace_file
from minigpt.storage.files import fsync, fsync_all, read_file
from minigpt.errors import UserError
from minigpt.models import GPT, EncoderDecoder, build_gpt, build_model
from minigpt.models.lora import enable_lora, merged_weights
from minigpt.models.memory_estimate import check_model_fits
from minigpt.models.state import assign, weight_arrays
from minigpt.runs.paths import check_run, refuse_taken
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
        self.checkpoints_folder = self.path / "checkpoints"
        self.model_file = self.path / "model.keras"
        self.saved_model_folder = self.path / "saved_model"
        check_run(self.path)

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
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            # Of a process that was killed just here.
            if not _is_running(left.name.split(".")[-2]):
                shutil.rmtree(left, ignore_errors=True)
        try:
            (temporary / "checkpoints").mkdir(parents=True)
            (temporary / "config.toml").write_text(dump_config(config), encoding="utf-8")
            if corpus is not None:
                (temporary / "corpus.json").write_text(json.dumps(corpus, indent=2) + "\n")
            tokenizer.save(temporary / "tokenizer")
            if model is not None:
                save_model(model, temporary / "model.keras")
            fsync_all(temporary)
            # Fails if another process has put a run there in the meantime.
            os.rename(temporary, path)
            fsync(path.parent)
        except OSError as error:
            raise UserError(f"--run {path}: cannot be written: {error.strerror or error}") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return cls(path)

    def replace_config(self, config: Config) -> None:
        """Writes config.toml anew; at every moment it is either the old or the new one.

        Raises:
          OSError: it cannot be written; the old one is still there.
        """
        replace_file(self.config_file, dump_config(config).encode())

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
            return {"fingerprint": json.loads(read_file(self.corpus_file))["fingerprint"]}
        except OSError as error:
            raise UserError(f"{self.corpus_file}: {error.strerror or error}") from None
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UserError(f"{self.corpus_file}: damaged, not what training wrote") from None

    def load_tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.tokenizer_folder)

    def load_model(self, report: Callable[[str], None] = warnings.warn) -> GPT | EncoderDecoder:
        """The best model by validation loss; the last one if no epoch was finished.

        Args:
          report: gets a line about every broken checkpoint, and about the one used in its place.
        Raises:
          UserError: if there is no finished checkpoint, or it cannot be read.
        """
        if not self.model_file.is_file():
            return self._model_of_checkpoint(report)
        if not zipfile.is_zipfile(self.model_file):
            raise UserError(f"{self.model_file}: damaged, not a whole .keras file")
        # Only its weights: what else a file from a stranger describes is not built.
        model = self._new_model()
        try:
            model.load_weights(self.model_file)
        except Exception as error:  # Whatever zipfile, HDF5 and Keras make of a damaged one.
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"{self.model_file}: not a readable model: {reason}") from None
        return model

    def best_checkpoint(self, report: Callable[[str], None] = warnings.warn) -> Checkpoint:
        """The best by validation loss; the newest if no epoch was finished, or the best is broken.

        Args:
          report: gets a line about every broken one, and about the one used in its place.
        Raises:
          UserError: there is none.
        """
        broken_ones: list[str] = []
        found = self._best_checkpoint(broken_ones.append)
        for line in broken_ones:
            report(line)
        if broken_ones:
            report(f"{found.path}: used instead")
        return found

    def _best_checkpoint(self, report: Callable[[str], None]) -> Checkpoint:
        newest = newest_checkpoint(self.checkpoints_folder, report)
        if newest is None:
            if broken := checkpoint_paths(self.checkpoints_folder):
                raise UserError(f"RUN {self.path}: none of its {len(broken)} checkpoints is sound")
            raise UserError(
                f"RUN {self.path}: has no finished checkpoint; train it for at least one epoch"
            )
        if (best := newest.progress.best) is None:
            return newest
        path = self.checkpoints_folder / best.checkpoint
        try:
            return newest if path == newest.path else read_checkpoint(path)
        except BrokenCheckpointError as broken:
            report(f"{path}: broken and left out: {broken}")
            return newest

    def _new_model(self) -> GPT | EncoderDecoder:
        config, vocab_size = self.config, self.load_tokenizer().vocab_size
        check_model_fits(config.model, vocab_size)
        return build_model(config.model, vocab_size, config.training.precision)

    def _model_of_checkpoint(self, report: Callable[[str], None]) -> GPT | EncoderDecoder:
        found, config, model = self.best_checkpoint(report), self.config, self._new_model()
        training = config.training
        values = weight_arrays(found.arrays)
        try:
            if training.lora_rank:
                assert isinstance(model, GPT)
                # In float32 whatever it was trained in: the sums are rounded no further.
                adapted = build_gpt(config.model, model.vocab_size)
                enable_lora(adapted, training.lora_rank)
                assign(adapted.weights, values)
                values = merged_weights(adapted)
            assign(model.weights, values)
        except ValueError:
            raise UserError(
                f"{found.path}: its arrays do not fit the model of {self.config_file}"
            ) from None
        return model

    def append(self, file: Path, record: dict[str, Any]) -> None:
        """Adds one JSON line to one of the run's files; it is on the disk when this returns.

        Raises:
          OSError: it cannot be written; a part of it may be there, which `cut_lines` removes.
        """
        with open(file, "a", encoding="utf-8", opener=_open_no_link) as lines:
            lines.write(json.dumps(record, ensure_ascii=False) + "\n")
            lines.flush()
            os.fsync(lines.fileno())

    def cut_lines(self, file: Path, epochs: int) -> None:
        """Leaves of metrics.jsonl or samples.jsonl what the first epochs wrote; torn lines go too."""
        if not file.is_file():
            return
        before = file.read_bytes()
        kept = b"".join(line for line in before.splitlines(True) if _epoch(line) <= epochs)
        if kept != before:
            replace_file(file, kept)

    def clear_unfinished(self) -> None:
        """Removes what killed processes left half written. Only who holds the lock may do that."""
        for path in self.path.glob(".*"):
            if path.suffix in (".tmp", ".new") or path.name.endswith(".tmp.keras"):
                is_folder = path.is_dir() and not path.is_symlink()
                shutil.rmtree(path) if is_folder else path.unlink()


def _is_running(process: str) -> bool:
    """Whether there is a process of this number; True of what is no number."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, OverflowError):
        return True
    return True


def _open_no_link(path: str, flags: int) -> int:
    """In a stranger's run a link may lead to any file of this user's, and a pipe be waited for."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _epoch(line: bytes) -> float:
    """Of a line of metrics.jsonl or samples.jsonl; infinite if it is not whole."""
    try:
        return float(json.loads(line)["epoch"]) if line.endswith(b"\n") else math.inf
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return math.inf


def save_model(model: keras.Model, path: Path) -> None:
    """Writes a `.keras` file whole or not at all."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp.keras")
    try:
        model.save(temporary)
        fsync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
