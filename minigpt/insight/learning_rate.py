"""The verdict about the learning rate, from a sweep: short trainings with other learning rates."""

import math
from typing import Any

from minigpt.insight.history import History
from minigpt.insight.learning_verdicts import gain_of_twice
from minigpt.insight.verdict import Verdict
from minigpt.runs.records import number

# The best learning rate of the sweep differs by at least this factor,
FACTOR = 8
# and the loss of the run's own is higher by this share of what the best one learns in the same steps.
WORSE = 0.1
# A low learning rate does no harm to a training that was long enough: twice the steps would give less than
# this share of what was learned.
LONG_ENOUGH = 0.03


def learning_rate_verdict(history: History) -> Verdict | None:
    """Returns a verdict if a sweep found a much better learning rate; None without a sweep."""
    sweep = sweep_of(history.analysis)
    own = history.config.training.learning_rate
    losses = [loss for rate, loss in sweep if math.isclose(rate, own, rel_tol=1e-6)]
    if not losses or not math.isfinite(min(loss for _, loss in sweep)):
        return None
    own_loss = losses[0]
    best_rate, best_loss = min(sweep, key=lambda entry: entry[1])
    start = history.uniform if math.isfinite(history.uniform) else float(history.losses[0])
    if own_loss - best_loss < WORSE * (start - best_loss):
        return None
    steps = history.analysis.get("sweep_steps")
    length = f" of {steps:,} steps" if isinstance(steps, int) else ""
    reached = f"was {own_loss:.3f} nats per token" if math.isfinite(own_loss) else "became nan"
    evidence = (
        f"In short trainings{length}, the training loss {reached} with training.learning_rate = {own:g} "
        f"and {best_loss:.3f} with {best_rate:.2g}."
    )
    action = f"Train again with training.learning_rate = {best_rate:.2g}."
    if own >= FACTOR * best_rate:
        return Verdict("learning_rate_high", evidence, action)
    if best_rate >= FACTOR * own and not _was_long_enough(history):
        return Verdict("learning_rate_low", evidence, action)
    return None


def sweep_of(analysis: dict[str, Any]) -> list[tuple[float, float]]:
    """Returns the learning rates of a sweep and their losses, in nats per token; inf for nan.

    Args:
      analysis: the content of analysis.json.
    """
    entries = analysis.get("sweep")
    found = []
    for entry in entries if isinstance(entries, list) else []:
        rate = number(entry.get("learning_rate")) if isinstance(entry, dict) else None
        if rate is not None:
            loss = number(entry.get("loss"))
            found.append((rate, math.inf if loss is None else loss))
    return sorted(found)


def _was_long_enough(history: History) -> bool:
    gain, learned = gain_of_twice(history), history.unigram - history.last.val_loss
    return gain is not None and learned > 0 and gain < LONG_ENOUGH * learned
