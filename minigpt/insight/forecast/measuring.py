"""Measures the parts of a training run: a short one with the real model and the real loop."""

import io
import statistics
import time
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console

from minigpt.config import Config
from minigpt.corpus.token_store import Corpus
from minigpt.generation.translation import Translator
from minigpt.insight.forecast.training_time import Durations
from minigpt.models import GPT, EncoderDecoder
from minigpt.runs.run import Run
from minigpt.targets.run_files import EpochFiles, PortableFile, SavedModelFolder
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
    hooks = [EpochFiles(), SavedModelFolder(), PortableFile()]
    loop = TrainingLoop(run, part, model, [timer], Console(file=io.StringIO()), hooks)
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
    training: dict[str, Any] = {
        "epochs": EPOCHS,
        "steps_per_epoch": UPDATES,
        "max_minutes": None,
        "step_limits": [],
        "early_stopping_patience": None,
        "checkpoint_every_steps": None,
        "checkpoint_every_seconds": None,
    }
    return config.model_copy(
        update={
            "training": config.training.model_copy(update=training),
            "sampling": config.sampling.model_copy(update={"print_every": 1}),
        }
    )


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
