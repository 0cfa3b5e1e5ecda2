"""The exports that every run has: a portable file, those of its first updates, and a SavedModel."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from minigpt.config import TrainingConfig
from minigpt.config.sampling import engine_problems
from minigpt.models.lora import count_merged, merged_weights
from minigpt.notices import LOGGER
from minigpt.runs.layout import PORTABLE_FILE, is_snapshot, remove_later_snapshots, snapshot_name
from minigpt.runs.run import Run
from minigpt.storage.atomic import atomic_file, atomic_folder
from minigpt.targets.gguf.run_file import write_run_file
from minigpt.targets.gguf.text_model import PortableTextModel, load_portable
from minigpt.targets.gguf.writing import portable_problem
from minigpt.targets.targets import ExportSource, Target, target_named
from minigpt.training.hooks import Hook
from minigpt.training.loop import TrainingLoop

# The largest model whose snapshots are kept if training.keep_snapshots is not set.
MAX_PARAMETERS = 20_000_000
# Weights times tokens that the engine samples in one or two seconds, less than TensorFlow traces its loop.
MAX_SAMPLED = 4e9
# The scale of 32 numbers in int8 is a float16.
LARGEST_WEIGHT = 127 * 65504


class BestExport(Hook):
    """Writes an export of the best model at the end; says before training why it cannot.

    `name` is that of the file or folder in the run directory.
    """

    _problem: str | None = None

    def __init__(self, target: Target, name: str) -> None:
        self.target, self.name = target, name

    def started(self, loop: TrainingLoop) -> None:
        config = loop.task.config
        self._problem = self.target.problem(config.model, loop.task.corpus.tokenizer)
        if loop.is_over:
            return
        if self._problem:
            LOGGER.warning("%s will not be written: %s", self.name, self._problem)
            return
        for ignored in self.target.ignored_settings(config.sampling):
            LOGGER.warning("%s: %s", self.name, ignored)

    def best_ready(self, run: Run, model: keras.Model) -> None:
        if self._problem:
            return
        source, path = ExportSource(run), run.path / self.name
        source.model = model  # It is loaded already.
        is_folder = self.target.is_folder
        with atomic_folder(path, replace=True) if is_folder else atomic_file(path) as unfinished:
            self.target.write(source, unfinished, "float32")


class Snapshots(Hook):
    """Writes portable files with matrices in int8 after updates 0, 1, 3, 10, 30, ...

    A run that began from another model has that of update 0 only, unless `training.keep_snapshots` is
    set: the others differ from it by less than rounding.
    """

    name = "a state of training"
    # None if no files are kept.
    _loop: TrainingLoop | None = None

    def started(self, loop: TrainingLoop) -> None:
        config, tokenizer = loop.task.config, loop.task.corpus.tokenizer
        if portable_problem(config.model, tokenizer):
            return
        sampling = config.sampling
        drawn = len(sampling.prompts) * sampling.max_new_tokens * count_merged(loop.model)
        if drawn <= MAX_SAMPLED and not engine_problems(dict(sampling), ""):
            loop.task.open_state = partial(_open_state, loop)
        if keeps_snapshots(config.training, loop.model):
            self._loop = loop
            remove_later_snapshots(loop.run.snapshots_folder, loop.clock.step)
            if loop.clock.step == 0:
                self.step_ended({})

    def step_ended(self, logs: dict[str, Any]) -> None:
        loop = self._loop
        # The batches of one update have the same number.
        if loop is None:
            return
        training = loop.training
        if training.init_from and training.keep_snapshots is None and loop.clock.step:
            return
        if is_snapshot(loop.clock.step) and loop.clock.step not in loop.run.snapshots():
            weights = _weights(loop)
            if not all((np.abs(array) < LARGEST_WEIGHT).all() for array in weights):
                return  # The checkpoint reports what is nan or infinite.
            file = loop.run.snapshots_folder / snapshot_name(loop.clock.step)
            file.parent.mkdir(exist_ok=True)
            write_run_file(loop.run, file, "int8", weights, {"step": loop.clock.step})


def _weights(loop: TrainingLoop) -> list[np.ndarray]:
    has_lora = loop.training.lora_rank is not None
    return merged_weights(loop.model) if has_lora else loop.model.get_weights()


def _open_state(loop: TrainingLoop) -> PortableTextModel:
    """Opens the model as it is in the engine."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / PORTABLE_FILE
        write_run_file(loop.run, file, "float32", _weights(loop), {"step": loop.clock.step})
        model = load_portable(file)
    assert isinstance(model, PortableTextModel)
    return model


def export_hooks() -> list[Hook]:
    """Returns the hooks that write the exports of a run."""
    return [
        Snapshots(),
        BestExport(target_named("saved_model"), "saved_model"),
        BestExport(target_named("gguf"), PORTABLE_FILE),
    ]


def keeps_snapshots(training: TrainingConfig, model: keras.Model) -> bool:
    """Returns whether snapshots are kept: `training.keep_snapshots`, or its default."""
    is_small = count_merged(model) <= MAX_PARAMETERS
    return is_small if training.keep_snapshots is None else training.keep_snapshots
