"""Measures the parts of a training: a short one, in a temporary directory, with the real model and loop."""

import io
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console

from minigpt.insight.forecast.part import EPOCHS, part_of
from minigpt.insight.forecast.training_time import Durations
from minigpt.models import GPT, EncoderDecoder
from minigpt.runs.run import Run
from minigpt.training.loop import TrainingLoop
from minigpt.training.pipeline import export_best
from minigpt.training.tasks.task import Task
from minigpt.training.tasks.translation import Translation

# The last epoch measures updates for so long, but at least MIN_UPDATES, and at most for MAX_SECONDS.
STEADY_SECONDS, MIN_UPDATES, MAX_SECONDS = 4.0, 8, 20.0
# The first epoch compiles: each shape of a batch, but not for longer than this.
COMPILING_SECONDS = 120.0


def measure(task: Task, model: GPT | EncoderDecoder, folder: Path) -> Durations:
    """Trains for a few updates and exports the result.

    The validation reads a part of a long held-out text; its time is extrapolated.

    Args:
      task: the task of the whole training.
      model: compiled for it. Its weights change.
      folder: an empty folder; everything is written there.
    Returns:
      the durations; the preparation is 0.
    Raises:
      UserError: the loss became nan or infinite.
      KeyboardInterrupt: after Ctrl-C.
    """
    part = part_of(task)
    part.set_model(model)
    corpus = task.corpus
    run = Run.create(
        folder / "run", part.config, corpus.tokenizer, {"fingerprint": corpus.fingerprint}
    )
    shapes = _batch_shapes(task)
    steps = _Steps(
        lambda number: _batch_shape(task, number),
        len(shapes),
        task.config.training.accumulate_steps,
    )
    began = time.perf_counter()
    TrainingLoop(run, part, model, [steps], Console(file=io.StringIO())).fit()
    fitted = time.perf_counter()
    export_best(run, part)
    exported = time.perf_counter()
    first_compilation, compilation, step = steps.durations(shapes)
    before = steps.ends[0][0] - began
    timed = part.seconds
    saving = fitted - steps.ends[-1][-1] - timed["validation"][-1] - timed["samples"][-1]
    final = sum(timed["final scores"])
    validation, samples, final_scores = part.extrapolated()
    return Durations(
        preparation=0.0,
        first_compilation=before + first_compilation,
        compilation=before + compilation,
        step=step,
        first_validation=part.compiling("validation") + validation,
        validation=validation,
        first_samples=part.compiling("samples", 0) + samples,
        second_samples=part.compiling("samples", 1) + samples,
        samples=samples,
        checkpoint=saving,
        export=exported - fitted - final + final_scores,
    )


def _batch_shape(task: Task, number: int) -> Hashable:
    """Returns the shape of a batch, for which the update is compiled."""
    if isinstance(task, Translation):
        return task.buckets.batch_indices(task.config.training.seed, number)[1]
    return task.sequence_length


def _batch_shapes(task: Task) -> dict[Hashable, float]:
    """Returns the share of the batches that each shape has."""
    if not isinstance(task, Translation):
        return {task.sequence_length: 1.0}
    batches = Counter[Hashable]()
    for bucket in task.buckets.buckets:
        batches[bucket.shape] += bucket.batches
    return {shape: number / batches.total() for shape, number in batches.items()}


class _Steps(keras.callbacks.Callback):
    """Ends each epoch when enough was measured: the first ones compile, the last one is steady.

    Args:
      shape: returns the shape of a batch by its number; each shape is compiled once.
      shapes: the number of shapes.
      accumulate_steps: batches of an update.
    """

    def __init__(
        self, shape: Callable[[int], Hashable], shapes: int, accumulate_steps: int
    ) -> None:
        super().__init__()
        self.shape, self.shapes, self.accumulate_steps = shape, shapes, accumulate_steps
        # Of each epoch: its beginning, and the end of each batch.
        self.ends: list[list[float]] = []
        self.seen: list[Hashable] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.ends.append([time.perf_counter()])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # Read, as the display reads it: the update may be computed in the background.
        float(logs["loss"])
        ends = self.ends[-1]
        ends.append(time.perf_counter())
        self.seen.append(self.shape(len(self.seen)))
        batches, seconds = len(ends) - 1, ends[-1] - ends[0]
        if batches % self.accumulate_steps:
            return
        updates = batches // self.accumulate_steps
        if len(self.ends) == 1:
            enough = updates >= 2 and len(set(self.seen)) == self.shapes
            over = updates >= 2 and seconds > COMPILING_SECONDS
        elif len(self.ends) < EPOCHS:
            enough = over = True
        else:
            enough = updates >= MIN_UPDATES and seconds > STEADY_SECONDS
            over = updates >= 2 and seconds > MAX_SECONDS
        if enough or over:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.stop_training = False

    def durations(self, shapes: dict[Hashable, float]) -> tuple[float, float, float]:
        """Returns the seconds of the first compilation, of all of them, and of an update.

        Args:
          shapes: for each shape, the share of the batches that have it.
        """
        *before, last = (np.diff(ends).tolist() for ends in self.ends)
        first = [seconds for epoch in before for seconds in epoch]
        # A shape that the last epoch sees for the first time is compiled there.
        compiled = set(self.seen[: len(first)])
        steady: dict[Hashable, list[float]] = defaultdict(list)
        for shape, seconds in zip(self.seen[len(first) :], last, strict=True):
            if shape in compiled:
                steady[shape].append(seconds)
            compiled.add(shape)
        means = {shape: statistics.fmean(seconds) for shape, seconds in steady.items()}
        mean = statistics.fmean(means.values())
        batch = sum(share * means.get(shape, mean) for shape, share in shapes.items())
        # What the first epochs took longer than they would have later.
        seen = self.seen[: len(first)]
        extra = [s - means.get(shape, mean) for s, shape in zip(first, seen, strict=True)]
        # The first update also traces the model. A shape that was not seen costs as much as a later one.
        later = [extra[i] for i, shape in enumerate(seen) if i and shape not in seen[:i]]
        unseen = (len(shapes) - len(set(seen))) * statistics.fmean(later or extra[:1])
        compilation = max(0.0, sum(extra) + unseen)
        return max(0.0, extra[0]), compilation, batch * self.accumulate_steps
