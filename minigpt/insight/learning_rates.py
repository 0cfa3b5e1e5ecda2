"""The doctor's sweep of learning rates: short runs from the same initial weights, on the same batches."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np

from minigpt.config import Config
from minigpt.insight.sweep import try_settings
from minigpt.models.state import arrays_of, restore
from minigpt.runs.layout import run_error
from minigpt.runs.run import Run, open_run_corpus
from minigpt.training.callbacks.callback import Callback, training_loss
from minigpt.training.start import initial_model
from minigpt.training.strategy import Strategy
from minigpt.training.tasks import build_task

# Neighboring learning rates of the sweep differ by FACTOR; at most MOST are tried in each direction.
FACTOR, MOST = 4.0, 7
# Updates of a short run. If they would take too long, fewer; with fewer than the least, nothing is
# learned that could be compared.
STEPS, LEAST_STEPS = 100, 20
# The time that the sweep should take, without compiling.
SECONDS = 60.0
_TRAININGS = 6
_WARMUP_SHARE = 0.1
# Losses that differ by less than this share are equal.
_EQUAL = 0.02
# The loss of a short run is the mean over this share of its updates, the last ones.
_LAST_SHARE = 0.2


class TooSlow(Exception):
    """Other learning rates cannot be tried in a reasonable time."""


@dataclass(frozen=True)
class Sweep:
    """The losses of short runs.

    Attributes:
      steps: weight updates of each.
      losses: learning rate → training loss at the end, nats per token; inf if it became nan or infinite.
    """

    steps: int
    losses: dict[float, float]


def sweep_learning_rates(run: Run, report: Callable[[str], object] = lambda line: None) -> Sweep:
    """Trains with the learning rate of a run and with others, until no better one is found.

    Each short run has its own warm-up and linear decay. The directory of the run is not changed.

    Args:
      run: the run.
      report: called with a line about each short run.
    Raises:
      UserError: the text of the run has changed.
      TooSlow: a weight update takes so long that the sweep would take many times `SECONDS`.
    """
    config = run.config
    corpus = open_run_corpus(run)
    if corpus is None:
        raise run_error(run.path, "its text has changed since training")
    Strategy().set_up(config.training)
    task = build_task(config, corpus)
    model = initial_model(task)
    Strategy().compile(task, model)
    initial = {name: array.copy() for name, array in arrays_of(model).items()}
    own = config.training.learning_rate
    accumulated = config.training.accumulate_steps

    def train(rate: float, steps: int) -> "_ShortTraining":
        restore(model, initial)
        short = _ShortTraining(config, rate, steps)
        model.stop_training = False
        model.fit(
            task.batches(0, steps * accumulated),
            epochs=1,
            steps_per_epoch=steps * accumulated,
            callbacks=[short],
            shuffle=False,
            verbose=0,
        )
        return short

    steps = _affordable_steps(train(own, 4).seconds_per_step)
    losses = try_settings(
        partial(search, own),
        lambda rate: train(rate, steps).loss,
        lambda rate, loss: report(
            f"learning rate {rate:.2g}: training loss {loss:.3f} after {steps} steps"
        ),
    )
    return Sweep(steps, losses)


def search(own: float, losses: Mapping[float, float]) -> Iterator[float]:
    """Looks for the best learning rate among own · FACTOR^k, first upwards, then downwards.

    A direction ends at the first rate that is worse than the best one, or fails. Rates that are equally
    good do not end it: several may be so high, or so low, that nothing is learned.

    Args:
      own: the first learning rate.
      losses: those of the rates that were tried; inf if training fails.
    """
    yield own
    for factor in (FACTOR, 1 / FACTOR):
        rate = own
        for _ in range(MOST):
            rate *= factor
            yield rate
            is_worse = losses[rate] > (1 + _EQUAL) * min(losses.values())
            # Training that fails may succeed with a lower rate.
            if is_worse or (factor > 1 and not math.isfinite(losses[rate])):
                break


class _ShortTraining(Callback):
    """Sets the learning rates of a short run and keeps its losses."""

    def __init__(self, config: Config, rate: float, steps: int) -> None:
        super().__init__()
        self.rate, self.steps = rate, steps
        self.accumulated = config.training.accumulate_steps
        self._means: list[float] = []
        self._ends: list[float] = []

    @property
    def loss(self) -> float:
        """The mean loss of the last updates; nan or inf if one was."""
        # `fit` reports means over all batches so far.
        means = np.array(self._means)
        sums = means * np.arange(1, len(means) + 1)
        count = max(1, round(_LAST_SHARE * len(means)))
        before = sums[-count - 1] if len(means) > count else 0.0
        return float((sums[-1] - before) / count)

    @property
    def seconds_per_step(self) -> float:
        """The median time of an update, without the first one, which includes compilation."""
        return statistics.median(np.diff(self._ends)) * self.accumulated

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        step = batch // self.accumulated
        warmup = (step + 1) / max(1.0, _WARMUP_SHARE * self.steps)
        decay = 1 - step / self.steps
        self.model.optimizer.learning_rate = self.rate * min(1.0, warmup, decay / 0.9)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        self._ends.append(time.perf_counter())
        self._means.append(float(training_loss(logs)))
        if not math.isfinite(self._means[-1]):
            assert isinstance(self.model, keras.Model)
            self.model.stop_training = True


def _affordable_steps(seconds_per_step: float) -> int:
    steps = int(SECONDS / (_TRAININGS * seconds_per_step))
    if steps < LEAST_STEPS / 4:
        raise TooSlow(f"a weight update takes {seconds_per_step:.1f} s on this machine")
    return min(STEPS, max(LEAST_STEPS, steps))
