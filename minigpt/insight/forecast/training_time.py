"""How long a training run takes, computed from the seconds of its parts. Imports no TensorFlow."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from minigpt.config import TrainingConfig

# Training with a time limit ends at this share of it, and is shortened if it would end after LATEST: see
# `training.callbacks.clock`.
TARGET, LATEST = 0.99, 1.01


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
