"""The history of a run, read from its files."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from minigpt.config import Config
from minigpt.runs.analysis import read_analysis
from minigpt.runs.records import number, read_lines
from minigpt.runs.run import Run

# The losses of single updates differ too much to be compared.
LEAST_WIDTH = 5


@dataclass(frozen=True)
class Epoch:
    """The scores after an epoch; losses in nats per token.

    Attributes:
      epoch: its number, from 1.
      step: weight updates that were done.
      train_loss: mean over the updates of the epoch, with dropout.
      val_loss: on the held-out text.
      bits_per_byte: of the held-out text; None if the tokenizer loses text.
    """

    epoch: int
    step: int
    train_loss: float
    val_loss: float
    bits_per_byte: float | None


@dataclass(frozen=True)
class History:
    """What is known about the training of a run.

    Attributes:
      config: its settings.
      epochs: in order.
      steps, losses, learning_rates: float[n], the training loss after steps.jsonl: means over the updates
        between two lines. Without that file, the means of the epochs at their middles.
      has_failed: whether the loss became nan or infinite.
      uniform, unigram: baselines, nats per token; nan if they are not known.
      parameters: number of weights; 0 if it is not known.
      train_tokens, train_bytes: size of the training text; 0 if it is not known.
      tokens_per_step: tokens of a weight update; 0 if it is not known.
      analysis: the content of analysis.json.
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
    tokens_per_step: float
    analysis: dict[str, Any]

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
        if not self.tokens_per_step or not self.train_tokens:
            return None
        return self.last_step * self.tokens_per_step / self.train_tokens

    def mean_loss(self, first: float, last: float) -> float:
        """Returns the mean training loss of the lines from step `first` to step `last`."""
        inside = (self.steps >= first) & (self.steps <= last)
        return float(self.losses[inside].mean()) if inside.any() else float(self.losses[-1])


def read_history(run: Run, analysis: dict[str, Any] | None = None) -> History:
    """Reads the history of a run. Damaged lines are left out.

    Args:
      run: the run.
      analysis: in place of the content of analysis.json.
    Raises:
      UserError: the settings of the run cannot be read.
    """
    facts = run.facts
    analysis = read_analysis(run) if analysis is None else analysis
    baselines = facts.get("baselines") or {}
    epochs = [epoch for line in read_lines(run.metrics_file) if (epoch := _epoch(line))]
    lines = read_lines(run.steps_file)
    steps, losses, rates = training_curve(lines)
    if not len(steps):
        ends = [0, *(epoch.step for epoch in epochs)]
        steps = np.array([(a + b) / 2 for a, b in pairwise(ends)], float)
        losses = np.array([epoch.train_loss for epoch in epochs], float)
        rates = np.ones_like(steps)
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
        tokens_per_step=number(analysis.get("tokens_per_step")) or 0.0,
        analysis=analysis,
    )


def training_curve(lines: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the curve of steps.jsonl.

    Returns:
      steps, mean losses since the line before, and learning rates, each float[n].
    """
    steps, losses, rates = [], [], []
    epoch, batches, total = None, 0.0, 0.0
    for line in lines:
        step, count, mean = (number(line.get(key)) for key in ("step", "batches", "mean_loss"))
        if step is None or count is None or mean is None:
            continue
        if line.get("epoch") != epoch:
            epoch, batches, total = line.get("epoch"), 0.0, 0.0
        if count > batches:
            steps.append(step)
            losses.append((count * mean - total) / (count - batches))
            rates.append(number(line.get("learning_rate")) or 0.0)
        batches, total = count, count * mean
    return np.array(steps, float), np.array(losses, float), np.array(rates, float)


def _epoch(line: dict[str, Any]) -> Epoch | None:
    epoch, step, train_loss, val_loss = (
        number(line.get(key)) for key in ("epoch", "step", "train_loss", "val_loss")
    )
    if epoch is None or step is None or train_loss is None or val_loss is None:
        return None
    bits = number(line.get("val_bits_per_byte"))
    return Epoch(int(epoch), int(step), train_loss, val_loss, bits)
