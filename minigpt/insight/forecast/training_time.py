"""How long a training takes, computed from the seconds of its parts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

# Training with a time limit ends at this share of it, and is shortened if it would end after LATEST: see
# `training.callbacks.clock`.
TARGET, LATEST = 0.99, 1.01


@dataclass(frozen=True)
class Schedule:
    """What a training is planned to do; the settings of the same names.

    Attributes:
      epochs: number of epochs.
      steps_per_epoch: weight updates of an epoch.
      max_minutes: time limit; None if there is none.
      print_every: epochs between two samples.
      checkpoint_every_seconds: interval of the checkpoints within an epoch; None if there are none.
      checkpoint_every_steps: the same in updates.
    """

    epochs: int
    steps_per_epoch: int
    max_minutes: float | None = None
    print_every: int = 1
    checkpoint_every_seconds: float | None = None
    checkpoint_every_steps: int | None = None


@dataclass(frozen=True)
class Durations:
    """Seconds of each part of a training, as measured.

    Attributes:
      preparation: from the start of the program to the first batch, the compilation not included.
      first_compilation: what the first update takes in addition to `step`.
      compilation: what all updates take in addition; more than the first, if there are several shapes.
      step: one weight update.
      first_validation, validation: the validation after the first epoch, which compiles, and after others.
      first_samples, second_samples, samples: the same for the samples, which compile twice.
      checkpoint: saving the state and the weights of the epoch.
      export: the export of the best model and its final scores.
    """

    preparation: float
    first_compilation: float
    compilation: float
    step: float
    first_validation: float
    validation: float
    first_samples: float
    second_samples: float
    samples: float
    checkpoint: float
    export: float


@dataclass(frozen=True)
class Times:
    """Seconds of a training.

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


def times(durations: Durations, schedule: Schedule) -> Times:
    """Computes the seconds of a training from those of its parts.

    A time limit shortens the training as `Clock` does it: the number of updates is reduced. Early stopping
    is not foreseen.
    """
    planned = schedule.epochs * schedule.steps_per_epoch
    steps, limit = planned, 60 * (schedule.max_minutes or math.inf)
    if _training_seconds(durations, schedule, planned) > LATEST * limit:
        # Shapes that would be compiled after the limit are not.
        compilation = min(durations.compilation, max(durations.first_compilation, limit))
        durations = replace(durations, compilation=compilation)
        steps = _steps_within(durations, schedule, planned, TARGET * limit)
    parts = _parts(durations, schedule, steps)
    first = _parts(durations, schedule, min(steps, schedule.steps_per_epoch))
    training = sum(parts.values())
    return Times(
        steps=steps,
        first_epoch=sum(first.values()),
        training=training,
        total=durations.preparation + training + durations.export,
        parts={"preparation": durations.preparation, **parts, "export": durations.export},
    )


def _parts(durations: Durations, schedule: Schedule, steps: int) -> dict[str, float]:
    """Returns the seconds of the first `steps` updates and of the epochs that they begin."""
    epochs = math.ceil(steps / schedule.steps_per_epoch)
    samples = epochs // schedule.print_every
    d = durations
    return {
        "compilation": d.compilation,
        "steps": steps * d.step,
        "validation": d.first_validation + (epochs - 1) * d.validation,
        "samples": sum([d.first_samples, d.second_samples][:samples])
        + max(0, samples - 2) * d.samples,
        "checkpoints": (epochs + _checkpoints_within(d, schedule, steps)) * d.checkpoint,
    }


def _checkpoints_within(durations: Durations, schedule: Schedule, steps: int) -> int:
    """Returns how many checkpoints are saved that are not at the end of an epoch."""
    if every := schedule.checkpoint_every_steps:
        return steps // every
    if schedule.checkpoint_every_seconds is None:
        return 0
    interval = max(schedule.checkpoint_every_seconds, 50 * durations.checkpoint)
    whole, rest = divmod(steps, schedule.steps_per_epoch)
    in_epoch = int(schedule.steps_per_epoch * durations.step / interval)
    return whole * in_epoch + int(rest * durations.step / interval)


def _training_seconds(durations: Durations, schedule: Schedule, steps: int) -> float:
    return sum(_parts(durations, schedule, steps).values())


def _steps_within(durations: Durations, schedule: Schedule, planned: int, seconds: float) -> int:
    """Returns the updates after which a training ends that has this many seconds."""
    per_epoch = schedule.steps_per_epoch
    # The clock knows nothing of validation and samples before the first epoch has ended.
    first = (seconds - durations.compilation) / durations.step
    if first <= per_epoch:
        return max(1, int(first))
    low, high = 1, planned
    while low < high:
        middle = (low + high + 1) // 2
        if _training_seconds(durations, schedule, middle) <= seconds:
            low = middle
        else:
            high = middle - 1
    # At least the epoch that ends after the limit.
    return max(low, per_epoch)
