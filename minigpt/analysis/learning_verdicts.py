"""Verdicts about the course of a training: diverging, not learning, too short.

The thresholds are shares of what was learned: the difference between the loss of the token frequencies
(unigram) and the validation loss. A share means the same for every text and every tokenizer. They were
chosen on the trainings of tests/analysis/doctor_trainings.py.
"""

import math
from itertools import pairwise

import numpy as np

from minigpt.analysis.curve_fit import fit_power_law
from minigpt.analysis.history import History
from minigpt.analysis.verdict import Verdict

# The training loss has risen by this share of what had been learned, and by more than noise: this share of
# itself.
RISEN, NOISE = 0.25, 0.03
# Falling by less than this share of itself in the second half is not falling.
NOT_FALLING = 0.02
# The loss is at the unigram's: not lower by more than this share of it.
AT_UNIGRAM = 0.03
# After fewer updates, only that can be said.
LEAST_STEPS = 20
# Twice as many steps would learn this share more.
STILL_FALLING = 0.12
# Or it would lower the loss by this share: of a text that is easy to predict, most is learned early.
LOWER_LOSS = 0.3
# Memorized: the validation loss has risen by RISE and is above the training loss by GAP; or by LARGE_GAP.
RISE, GAP, LARGE_GAP = 0.03, 0.2, 0.4


def diverging(history: History) -> Verdict | None:
    """Returns a verdict if the training loss became nan, or is far above what it was."""
    rate = history.config.training.learning_rate
    action = f"Train again with training.learning_rate = {rate / 4:.2g} (it was {rate:g})."
    if history.has_failed:
        step = history.last_step
        return Verdict("diverging", f"The loss was nan or infinite after step {step:,}.", action)
    lowest, at = _lowest(history)
    last = history.train_loss
    learned = (history.unigram if math.isfinite(history.unigram) else _start(history)) - lowest
    if not math.isfinite(lowest) or last < lowest + max(RISEN * learned, NOISE * lowest):
        return None
    return Verdict(
        "diverging",
        f"The training loss was {lowest:.3f} nats per token around step {at:,} and is {last:.3f} at the "
        "end.",
        action,
    )


def not_learning(history: History) -> Verdict | None:
    """Returns a verdict if the validation loss is that of the token frequencies and does not fall."""
    unigram = history.unigram
    if not math.isfinite(unigram) or history.last.val_loss < (1 - AT_UNIGRAM) * unigram:
        return None
    if history.last_step < LEAST_STEPS or is_falling(history) or diverging(history):
        return None
    return Verdict(
        "not_learning",
        f"The validation loss is {history.last.val_loss:.3f} nats per token; that of the token frequencies "
        f"(unigram) is {unigram:.3f}. The training loss did not fall in the second half.",
        "No other learning rate is better: check that the text is not random."
        if history.analysis.get("sweep")
        else "Run `minigpt doctor RUN`, which tries other learning rates.",
    )


def too_short(history: History) -> Verdict | None:
    """Returns a verdict if twice as many steps would give much more."""
    if history.analysis.get("state") == "training":
        return None
    if history.last_step < LEAST_STEPS:
        evidence = f"It ended after step {history.last_step:,}."
        return Verdict("too_short", evidence, _longer(history))
    learned, gain = history.unigram - history.last.val_loss, gain_of_twice(history)
    if gain is None or not is_falling(history) or has_memorized(history):
        return None
    if not gain > min(STILL_FALLING * max(learned, 0.0), LOWER_LOSS * history.last.val_loss):
        return None
    expected = history.last.val_loss - gain
    return Verdict(
        "too_short",
        f"The loss was still falling fast at the end, at step {history.last_step:,}. According to a power "
        "law fitted to the training loss, twice as many steps would lower the validation loss from "
        f"{history.last.val_loss:.3f} to about {expected:.3f} nats per token.",
        _longer(history),
    )


def gain_of_twice(history: History) -> float | None:
    """Estimates how much lower the validation loss is after twice the steps, in nats per token."""
    law = fit_power_law(history.steps, history.losses, history.learning_rates)
    if law is None or not law.at(1) > 0:
        return None
    # The same share of the loss: the decay of the learning rate has lowered it below the law.
    share = 1 - law.at(2) / law.at(1)
    return history.last.val_loss * share * _share_held_out(history)


def _share_held_out(history: History) -> float:
    """Returns which share of the decrease in the second half reached the held-out text, 0 to 1."""
    middle = next((e for e in history.epochs if e.step >= 0.4 * history.last_step), history.last)
    end = history.last
    if middle.step > 0.8 * end.step:
        return 1.0
    before, after = (history.mean_loss(0.9 * epoch.step, epoch.step) for epoch in (middle, end))
    decrease = before - after
    return min(1.0, max(0.0, (middle.val_loss - end.val_loss) / decrease)) if decrease > 0 else 1.0


def is_falling(history: History) -> bool:
    """Returns whether the training loss fell in the second half."""
    end = history.last_step
    middle, last = history.mean_loss(0.4 * end, 0.6 * end), history.mean_loss(0.9 * end, end)
    return middle - last > NOT_FALLING * middle


def has_memorized(history: History) -> bool:
    """Returns whether the validation loss is far above the training loss.

    If it rises while the training loss falls, less is enough.
    """
    last, best = history.last.val_loss, history.best.val_loss
    if not math.isfinite(history.unigram):
        return False
    learned = max(history.unigram - best, AT_UNIGRAM * history.unigram)
    gap = last - history.train_loss
    step = history.best.step
    is_falling_alone = history.train_loss < history.mean_loss(0.9 * step, step)
    has_risen = last - best > RISE * learned and is_falling_alone
    return gap > LARGE_GAP * learned or (has_risen and gap > GAP * learned)


def _lowest(history: History) -> tuple[float, int]:
    """Returns the lowest mean training loss over a twentieth of the steps, and its step."""
    width = max(1.0, history.last_step / 20)
    edges = np.arange(0, history.last_step + width, width)
    means = [
        (float(history.losses[inside].mean()), float(history.steps[inside].mean()))
        for low, high in pairwise(edges)
        if (inside := (history.steps > low) & (history.steps <= high)).any()
    ]
    loss, step = min(means, default=(math.nan, 0.0))
    return loss, round(step)


def _start(history: History) -> float:
    """Returns the loss before training."""
    return history.uniform if math.isfinite(history.uniform) else float(history.losses[0])


def _longer(history: History) -> str:
    if history.analysis.get("state") == "interrupted":
        return "Resume it: `minigpt train --resume RUN`."
    training = history.config.training
    epochs, minutes = (
        f"training.epochs={2 * training.epochs}",
        f"training.max_minutes={2 * (training.max_minutes or 0):g}",
    )
    if training.step_limits:
        changes = [minutes]  # The time limit ended it.
    elif training.max_minutes:
        changes = [epochs, minutes]
    else:
        changes = [epochs]
    settings = " ".join(f"--set {change}" for change in changes)
    return f"Train it for twice as long: `minigpt train --resume RUN {settings}`."
