"""The time of a training run, computed from its parts. A short run with the real loop measures them."""

import io
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console

from minigpt.config import Config, TrainingConfig
from minigpt.corpus.token_store import Corpus
from minigpt.generation.translation import Translator
from minigpt.models import GPT, EncoderDecoder
from minigpt.runs.run import Run
from minigpt.targets.run_files import export_hooks
from minigpt.training.callbacks.clock import LATEST, TARGET
from minigpt.training.loop import TrainingLoop
from minigpt.training.pipeline import export_best
from minigpt.training.tasks import build_task
from minigpt.training.tasks.task import Task
from minigpt.training.tasks.translation import MAX_BLEU_PAIRS, Translation

# The samples of the second epoch still compile; those of the third one do not. An epoch ends earlier if it
# takes EPOCH_SECONDS.
EPOCHS, UPDATES, EPOCH_SECONDS = 3, 8, 20.0
# How much of a larger held-out part is validated.
VALIDATED_BATCHES, VALIDATED_PAIRS = 8, 256


@dataclass(frozen=True)
class Durations:
    """Seconds of each part of a training run, as measured.

    Attributes:
      preparation: from the start of the program to the first batch, the compilation not included.
      compilation: what the first updates take in addition to `step`, all together.
      first_epochs: what the first validation and the first two samples take in addition, because they
        compile.
      step: one weight update.
      validation: the validation after an epoch.
      samples: the samples after an epoch.
      checkpoint: saving the state and the weights of the epoch, and the report.
      export: the export of the best model and its final scores.
    """

    preparation: float
    compilation: float
    first_epochs: float
    step: float
    validation: float
    samples: float
    checkpoint: float
    export: float


@dataclass(frozen=True)
class Times:
    """Seconds of a training run.

    Attributes:
      steps: weight updates that it will do, which a time limit may reduce.
      first_epoch: from the first batch to the end of the first epoch, compilation included.
      training: all epochs.
      total: from the start of the program to its end.
      parts: the seconds of `total` by what they are spent on.
    """

    steps: int
    first_epoch: float
    training: float
    total: float
    parts: Mapping[str, float]


def measure(task: Task, model: GPT | EncoderDecoder, folder: Path) -> Durations:
    """Trains for a few updates, validates on a part of the held-out text, and exports the result.

    Args:
      task: the task of the whole run.
      model: compiled for it. Its weights change.
      folder: an empty folder; everything is written there.
    Returns:
      the durations; the preparation is 0.
    Raises:
      UserError: the loss became nan or infinite.
      KeyboardInterrupt: after Ctrl-C.
    """
    part = build_task(_short(task.config), _with_part_held_out(task))
    part.set_model(model)
    longer = _never_ending(part, model) if isinstance(part, Translation) else 1.0
    corpus = part.corpus
    run = Run.create(
        folder / "run", part.config, corpus.tokenizer, {"fingerprint": corpus.fingerprint}
    )
    timer = _Timer(part)
    loop = TrainingLoop(run, part, model, [timer], Console(file=io.StringIO()), export_hooks())
    loop.hooks.started(loop)
    loop.fit()
    fitted = time.perf_counter()
    checkpoint = fitted - timer.last
    export_best(run, part, loop.hooks)
    export = time.perf_counter() - fitted

    batch, compilation = seconds_of_batches(*_shapes(task, len(timer.batches)), timer.batches)
    losses, scores, samples = timer.seconds["loss"], timer.seconds["scores"], timer.samples
    final = sum(timer.seconds["final_scores"])
    validation_compiles = max(0.0, scores[0] - scores[-1])
    parts = task.corpus.val.tokens / corpus.val.tokens
    translated = (scores[-1] - losses[-1]) * min(parts, MAX_BLEU_PAIRS / VALIDATED_PAIRS)
    final_compiles = min(final, validation_compiles)
    return Durations(
        preparation=0.0,
        compilation=compilation,
        first_epochs=validation_compiles + sum(max(0.0, s - samples[-1]) for s in samples[:-1]),
        step=batch * task.config.training.accumulate_steps,
        validation=losses[-1] * parts + translated / longer,
        samples=samples[-1] / longer,
        checkpoint=checkpoint,
        export=export - final + final_compiles + (final - final_compiles) * parts / longer,
    )


def seconds_of_batches(
    shapes: list[Hashable], all_shapes: int, seconds: list[float]
) -> tuple[float, float]:
    """Returns the seconds of a batch, and what all compilations take.

    Args:
      shapes: the shape of each batch; the first one of a shape compiles.
      all_shapes: the number of shapes. Those that were not measured compile as long as the later ones.
      seconds: of each batch.
    """
    is_first = [shape not in shapes[:i] for i, shape in enumerate(shapes)]
    steady = [s for s, first in zip(seconds, is_first, strict=True) if not first]
    batch = statistics.median(steady or seconds)
    first, *later = (
        max(0.0, s - batch) for s, first in zip(seconds, is_first, strict=True) if first
    )
    return batch, first + (all_shapes - 1) * statistics.fmean(later or [first])


def _short(config: Config) -> Config:
    """Returns the settings of the short run, in which nothing else ends an epoch or saves within it."""
    short = config.with_training(
        epochs=EPOCHS,
        steps_per_epoch=UPDATES,
        max_minutes=None,
        step_limits=[],
        early_stopping_patience=None,
        checkpoint_every_steps=None,
        checkpoint_every_seconds=None,
    )
    sampling = config.sampling.model_copy(update={"print_every": 1})
    return short.model_copy(update={"sampling": sampling})


def _with_part_held_out(task: Task) -> Corpus:
    """Returns the corpus with a part of its held-out text: some batches, or pairs of all lengths."""
    val = task.corpus.val
    if isinstance(task, Translation):
        pairs = task.val
        places = np.linspace(0, len(pairs) - 1, min(len(pairs), VALIDATED_PAIRS)).astype(np.int64)
        sides = [side(place) for place in places for side in (pairs.source, pairs.target)]
        ids = np.concatenate([pairs.ids[:1], *sides]).astype(pairs.ids.dtype)
    else:
        tokens = task.config.training.batch_size * task.config.model.max_len
        ids = val.ids[: VALIDATED_BATCHES * tokens + 1]
    return replace(task.corpus, val=replace(val, ids=ids))


def _never_ending(task: Translation, model: EncoderDecoder) -> float:
    """Gives all translations the model's maximum length: an untrained model may end each at once, or none.

    Returns:
      how many times as long as later translations they are. Translations end together with the longest one
      of their batch; it is assumed to be twice as long as the mean target.
    """
    old = task.evaluator.translator
    task.evaluator.translator = Translator(
        model, old.end_id, [*old.never_sampled_ids, old.end_id], old.start_id
    )
    return max(1.0, model.max_len / (2 * float(task.val.target_lengths.mean())))


def _shapes(task: Task, count: int) -> tuple[list[Hashable], int]:
    """Returns the shapes of the first batches, for each of which updates are compiled; and their number."""
    if not isinstance(task, Translation):
        return [task.sequence_length] * count, 1
    seed, buckets = task.config.training.seed, task.buckets
    return [buckets.batch_indices(seed, i)[1] for i in range(count)], len(buckets.buckets)


class _Timer(keras.callbacks.Callback):
    """Measures the parts of a short training run.

    Args:
      task: its task, whose scores are timed.
    Attributes:
      batches: seconds of each batch. The first one contains what precedes it.
      samples: seconds of the samples of each epoch.
      seconds: of each call of a method of the task, by its name.
      last: when the samples of the last epoch had ended.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.accumulate_steps = task.config.training.accumulate_steps
        self.batches: list[float] = []
        self.samples: list[float] = []
        self.seconds: dict[str, list[float]] = defaultdict(list)
        for method in ("loss", "scores", "final_scores"):
            self._time_calls(task, method)
        self.last = self._epoch_begin = time.perf_counter()

    def _time_calls(self, task: Task, name: str) -> None:
        method = getattr(task, name)

        def timed(*args: Any) -> Any:
            start = time.perf_counter()
            result = method(*args)
            self.last = time.perf_counter()
            self.seconds[name].append(self.last - start)
            return result

        setattr(task, name, timed)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch_begin = time.perf_counter()
        if epoch:
            self.last = self._epoch_begin

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # Read, as the display reads it: the update may be computed in the background.
        float(logs["loss"])
        now = time.perf_counter()
        self.batches.append(now - self.last)
        self.last = now
        is_update = len(self.batches) % self.accumulate_steps == 0
        if is_update and now - self._epoch_begin > EPOCH_SECONDS:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.stop_training = False
        now = time.perf_counter()
        self.samples.append(now - self.last)
        self.last = now


def times(durations: Durations, training: TrainingConfig, print_every: int = 1) -> Times:
    """Computes the seconds of a training run from those of its parts.

    A time limit reduces the number of updates, as `Clock` does it. Early stopping is not foreseen.

    Args:
      durations: the seconds of the parts.
      training: the settings; `steps_per_epoch` is set.
      print_every: epochs between two samples.
    """
    steps = training.epochs * training.updates_per_epoch
    limit = 60 * (training.max_minutes or math.inf)
    if sum(_parts(durations, training, print_every, steps).values()) > LATEST * limit:
        # Shapes of batches that would be compiled after the limit are not.
        compilation = min(durations.compilation, limit)
        durations = replace(durations, compilation=compilation)
        steps = min(steps, _steps_within(TARGET * limit, durations, training, print_every))
    parts = _parts(durations, training, print_every, steps)
    first = _parts(durations, training, print_every, min(steps, training.updates_per_epoch))
    seconds = sum(parts.values())
    return Times(
        steps=steps,
        first_epoch=sum(first.values()),
        training=seconds,
        total=durations.preparation + seconds + durations.export,
        parts={"preparation": durations.preparation, **parts, "export": durations.export},
    )


def _parts(
    d: Durations, training: TrainingConfig, print_every: int, steps: int
) -> dict[str, float]:
    """Returns the seconds of the first `steps` updates and of the epochs that they begin."""
    epochs = math.ceil(steps / training.updates_per_epoch)
    saved = epochs
    if training.checkpoint_every_steps:
        saved += steps // training.checkpoint_every_steps
    elif training.checkpoint_every_seconds:
        saved += int(steps * d.step / max(training.checkpoint_every_seconds, 50 * d.checkpoint))
    return {
        "compilation": d.compilation + d.first_epochs,
        "steps": steps * d.step,
        "validation": epochs * d.validation,
        "samples": epochs // print_every * d.samples,
        "checkpoints": saved * d.checkpoint,
    }


def _steps_within(seconds: float, d: Durations, training: TrainingConfig, print_every: int) -> int:
    """Returns the updates after which training ends that has this many seconds."""
    # `Clock` knows nothing of validation and samples before the first epoch has ended.
    in_first = int((seconds - d.compilation) / d.step)
    if in_first <= training.updates_per_epoch:
        return max(1, in_first)
    per_epoch = d.validation + d.samples / print_every + d.checkpoint
    per_step = d.step + per_epoch / training.updates_per_epoch
    steps = int((seconds - d.compilation - d.first_epochs) / per_step)
    return max(training.updates_per_epoch, steps)
