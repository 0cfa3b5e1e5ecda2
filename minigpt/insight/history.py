"""The history of a run, read from its files."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from minigpt.config import Config
from minigpt.runs.analysis import Analysis, Memorization
from minigpt.runs.records import interval_lines, number, read_lines
from minigpt.runs.run import Run

# The losses of single updates differ too much to be compared.
LEAST_WIDTH = 5
# Updates with a lower share of the highest learning rate are left out of `fall_of_doubling`.
_HIGH_RATE = 0.3


@dataclass(frozen=True)
class Epoch:
    """The scores after an epoch, or after a validation within it; losses in nats per token.

    Attributes:
      epoch: its number, from 1.
      step: weight updates that were done.
      train_loss: mean over the updates of the epoch, with dropout.
      val_loss, bits_per_byte: of the held-out text; None if the tokenizer loses text.
      seconds: of training, until then; 0 if they are not known.
    """

    epoch: int
    step: int
    train_loss: float
    val_loss: float
    bits_per_byte: float | None
    seconds: float = 0.0


@dataclass(frozen=True)
class History:
    """What is known about the training of a run.

    Attributes:
      epochs: in order.
      steps, losses, learning_rates: float[n], the training loss after steps.jsonl: means over the updates
        between two lines. Without that file, the means of the epochs at their middles.
      has_failed: whether the loss became nan or infinite.
      uniform, unigram: baselines, nats per token; nan if they are not known.
      parameters: number of weights; 0 if it is not known.
      train_tokens, train_bytes: size of the training text; 0 if it is not known.
      val_loss_before: the validation loss before the first update, nats per token; None if it is not known.
    """

    config: Config
    epochs: list[Epoch]
    steps: np.ndarray
    losses: np.ndarray
    learning_rates: np.ndarray
    has_failed: bool
    uniform: float
    unigram: float
    parameters: int
    train_tokens: int
    train_bytes: int
    analysis: Analysis
    val_loss_before: float | None = None

    @property
    def last(self) -> Epoch:
        return self.epochs[-1]

    @property
    def best(self) -> Epoch:
        return min(self.epochs, key=lambda epoch: epoch.val_loss)

    @property
    def last_step(self) -> int:
        """The last recorded weight update; 0 if there is none."""
        return int(max([*self.steps[-1:], *(epoch.step for epoch in self.epochs[-1:])], default=0))

    @property
    def train_loss(self) -> float:
        """The training loss at the end: the mean over the last `width` updates."""
        return self.mean_loss(self.last_step - self.width, self.last_step)

    @property
    def width(self) -> float:
        """Number of updates over which a mean loss is taken: a twentieth of all, at least `LEAST_WIDTH`."""
        return max(LEAST_WIDTH, self.last_step / 20)

    @property
    def passes(self) -> float | None:
        """How often a token was read, on average; None if it is not known."""
        if not self.analysis.tokens_per_step or not self.train_tokens:
            return None
        return self.last_step * self.analysis.tokens_per_step / self.train_tokens

    @property
    def memorization(self) -> Memorization | None:
        """What was measured of the samples of the last state; None if nothing was."""
        last = self.analysis.memorization.get("last")
        # Another epoch was the last one when it was measured, before training was resumed.
        return last if last and last.epoch in (None, self.last.epoch) else None

    def mean_loss(self, first: float, last: float) -> float:
        """Returns the mean training loss of the lines from step `first` to step `last`."""
        inside = (self.steps >= first) & (self.steps <= last)
        return float(self.losses[inside].mean()) if inside.any() else float(self.losses[-1])

    def fall_of_doubling(self) -> float:
        """Returns by which share of itself the training loss fell when the training doubled the last time.

        The length of training is the sum of the learning rates so far, after Tissue et al. 2024, "Scaling
        Law with Learning Rate Annealing": with a schedule that decays, the loss as a function of the
        updates is flat at the end because the learning rate is low, not because there is nothing left to
        learn. The decrease that the decay itself causes is the same at the end of longer training, so only
        updates with a high learning rate are compared.
        """
        high = self.learning_rates >= _HIGH_RATE * self.learning_rates.max(initial=0.0)
        lengths = np.cumsum(self.learning_rates * np.diff(self.steps, prepend=0.0))[high]
        losses, end = self.losses[high], lengths[-1] if len(lengths) else 0.0
        before = losses[(lengths > 0.4 * end) & (lengths <= 0.5 * end)]
        after = losses[lengths > 0.8 * end]
        return float(1 - after.mean() / before.mean()) if len(before) and len(after) else 0.0


def read_history(run: Run, analysis: Analysis | None = None) -> History:
    """Reads the history of a run, with `analysis` in place of analysis.json; skips damaged lines."""
    facts = run.facts
    baselines = facts.get("baselines", {})
    records = read_lines(run.metrics_file)
    before = (number(line.get("val_loss")) for line in records if line.get("step") == 0)
    epochs = [epoch for line in records if line.get("step") != 0 and (epoch := _epoch(line))]
    lines = read_lines(run.steps_file)
    known = [line for line in lines if number(line.get("mean_loss")) is not None]
    curve = [
        (line["step"], line["loss"], number(line.get("learning_rate")) or 0.0)
        for line in interval_lines(known)
        if line["loss"] is not None
    ]
    if not curve:
        ends = [0, *(epoch.step for epoch in epochs)]
        middles = [(a + b) / 2 for a, b in pairwise(ends)]
        curve = [(x, e.train_loss, 1.0) for x, e in zip(middles, epochs, strict=True)]
    steps, losses, rates = np.array(curve, float).reshape(-1, 3).T
    unigram = baselines.get("unigram")
    return History(
        config=run.config,
        epochs=epochs,
        steps=steps,
        losses=losses,
        learning_rates=rates,
        has_failed=bool(lines) and lines[-1].get("mean_loss", 0.0) is None,
        uniform=baselines.get("uniform", math.nan),
        unigram=math.nan if unigram is None else unigram,
        parameters=facts.get("parameters", 0),
        train_tokens=facts.get("train_tokens", 0),
        train_bytes=facts.get("train_bytes", 0),
        analysis=run.analysis if analysis is None else analysis,
        val_loss_before=next(before, None),
    )


def _epoch(line: dict[str, Any]) -> Epoch | None:
    epoch, step, train_loss, val_loss = (
        number(line.get(key)) for key in ("epoch", "step", "train_loss", "val_loss")
    )
    if epoch is None or step is None or train_loss is None or val_loss is None:
        return None
    bits = number(line.get("val_bits_per_byte"))
    seconds = number(line.get("seconds")) or 0.0
    return Epoch(math.ceil(epoch), int(step), train_loss, val_loss, bits, seconds)
