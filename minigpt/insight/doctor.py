"""The doctor: verdicts about what is wrong with a run, each with its evidence and one thing to do.

The thresholds of losses are shares of what was learned: the difference between the loss of the token
frequencies (unigram) and the validation loss. A share means the same for every text and every tokenizer.
They were chosen on the runs of tests/fixtures/histories.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from minigpt.config import TrainingConfig
from minigpt.config.beginning import base_helps
from minigpt.config.complete import size_for
from minigpt.corpus.sources import DIVIDE
from minigpt.insight.history import History
from minigpt.runs.analysis import Verdict
from minigpt.training.console import rounded

# The training loss has risen by this share of what had been learned, and by more than noise: this share of
# itself.
RISEN, NOISE = 0.25, 0.03
# A loss that falls by less than this share of itself in the second half counts as not falling.
NOT_FALLING = 0.02
# The loss is that of the token frequencies if it is not lower by more than this share.
AT_UNIGRAM = 0.03
# After fewer updates from nothing, the only verdict is that there were too few.
LEAST_STEPS = 20
# The last doubling of the training lowered the loss by this share of what was learned.
STILL_FALLING = 0.12
# Or by this share of itself: most of a text that is easy to predict is learned early.
LOWER_LOSS = 0.3
# Overfitted: the validation loss has risen by RISE and is above the training loss by GAP; or by LARGE_GAP.
RISE, GAP, LARGE_GAP = 0.03, 0.2, 0.4
# A higher rate made the held-out loss higher.
MOST_DROPOUT = 0.2
# The held-out text is unlike the training text: the loss of its pairs of tokens exceeds those of all parts
# of the training text by this share of their mean (tests/insight/test_good_texts.py).
UNLIKE = 0.1
# Findings about a text that repeats itself. The parts of such a text are like each other.
REPETITION = ("duplicates", "repeated_line", "repeated_text")
# Smaller than what is chosen for a text of this size, by this factor.
SIZE_FACTOR = 8
# Parameters of a model that cannot hold a text: more tokens than this for each.
TOKENS_PER_PARAMETER = 20
# The validation loss is above the training loss by less than this share of what was learned.
NO_GAP = 0.05


def diverging(history: History) -> Verdict | None:
    """Returns a verdict if the training loss became nan, or is far above what it was."""
    rate, default = history.config.training.learning_rate, TrainingConfig().learning_rate
    action = f"Train a new run with `--set training.learning_rate={min(rate / 4, default):.2g}`."
    if history.has_failed:
        step = history.last_step
        return Verdict("diverging", f"The loss was nan or infinite after step {step:,}.", action)
    if history.last_step < LEAST_STEPS:
        return None
    lowest, at = _lowest(history)
    last = history.train_loss
    # Before the loss of the token frequencies is reached, what was learned is measured from the start.
    start = history.uniform if math.isfinite(history.uniform) else float(history.losses[0])
    reference = history.unigram if history.unigram > lowest else start
    learned = reference - lowest
    if not math.isfinite(lowest) or last < lowest + max(RISEN * learned, NOISE * lowest):
        return None
    evidence = f"The training loss was {lowest:.3f} nats per token around step {at:,}"
    return Verdict("diverging", f"{evidence} and is {last:.3f} at the end.", action)


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
        "Compare other values of training.learning_rate with `minigpt sweep`, and check that the text is "
        "not random.",
    )


def too_short(history: History) -> Verdict | None:
    """Returns a verdict if the loss was still falling at the end."""
    if history.analysis.state == "training":
        return None
    if history.last_step < LEAST_STEPS and history.val_loss_before is None:
        evidence = f"It ended after step {history.last_step:,}."
        return Verdict("too_short", evidence, _longer(history))
    if not is_falling(history) or has_overfitted(history):
        return None
    name, loss = judged_loss(history)
    least = min(STILL_FALLING * max(history.unigram - loss, 0.0), LOWER_LOSS * loss)
    if not last_gain(history) > least:
        return None
    evidence = f"At the end, at step {history.last_step:,}, the loss was falling: the {name} loss "
    evidence += f"is {loss:.3f} nats per token."
    return Verdict("too_short", evidence, _longer(history))


def below_ngram(history: History) -> Verdict | None:
    """Returns a verdict if a frozen n-gram predicts the held-out text better than the best model does."""
    baselines = history.analysis.baselines
    ngram, byte_ngram = baselines.ngram, baselines.byte_ngram_bits_per_byte
    if history.analysis.state == "training" or ngram is None:
        return None
    # The best state may be the one that training began from.
    share = min(1.0, (history.val_loss_before or math.inf) / history.best.val_loss)
    loss = share * history.best.val_loss
    bits = share * (history.best.bits_per_byte or math.nan)
    if ngram < loss:
        kind, score, own, unit = "tokens", ngram, loss, "nats per token"
    elif byte_ngram is not None and byte_ngram < bits:
        kind, score, own, unit = "bytes", byte_ngram, bits, "bits per byte"
    else:
        return None
    evidence = (
        f"A 7-gram of {kind}, counted once on the training text and then frozen, predicts the held-out "
        f"text with {score:.3f} {unit}; the best state of the model has {own:.3f}."
    )
    # Bits per byte of the model that training began from. If it knew the text, training for longer wins.
    before = (history.val_loss_before or math.nan) / loss * bits
    suits = share == 1.0 and base_helps(before, before, history.train_bytes)
    if (source := history.config.training.init_from) and not suits:
        return Verdict(
            "below_ngram",
            f"{evidence} Training began from {Path(source).name}, which may not suit the text.",
            "Train a new run from nothing (`--base none`), and compare.",
        )
    return Verdict("below_ngram", evidence, _longer(history))


def no_better(history: History) -> Verdict | None:
    """Returns a verdict if no state is better than the model that training began from."""
    before, best, source = history.val_loss_before, history.best, history.config.training.init_from
    if history.analysis.state == "training" or before is None or best.val_loss < before:
        return None
    return Verdict(
        "no_better",
        f"{Path(source or '').name} has a validation loss of {before:.3f} nats per token; the lowest one "
        f"since training began from it is {best.val_loss:.3f}. The best model is the one it began from.",
        "",
    )


def last_gain(history: History) -> float:
    """Returns by how much the last doubling of the training lowered `judged_loss`, in nats per token."""
    name, loss = judged_loss(history)
    gain = loss * history.fall_of_doubling()
    middle = next((e for e in history.epochs if e.step >= 0.4 * history.last_step), history.last)
    if name == "validation" and middle.step <= 0.8 * history.last_step:
        # What is learned may not reach the held-out text.
        gain = min(gain, max(0.0, 2 * (middle.val_loss - history.last.val_loss)))
    return gain


def judged_loss(history: History) -> tuple[str, float]:
    """Returns the name and the value of the loss that shows what was learned."""
    if unlike(history):
        return "training", history.train_loss
    return "validation", history.last.val_loss


def is_falling(history: History) -> bool:
    """Returns whether the training loss fell in the second half."""
    end = history.last_step
    middle, last = history.mean_loss(0.4 * end, 0.6 * end), history.mean_loss(0.9 * end, end)
    return middle - last > NOT_FALLING * middle


def has_overfitted(history: History) -> bool:
    """Returns whether the validation loss is far above the training loss, for no other reason.

    If it rises while the training loss falls, less is enough. There is another reason if the model has not
    read a token twice, or if the held-out text is unlike the training text.
    """
    last, best = history.last.val_loss, history.best.val_loss
    if not math.isfinite(history.unigram):
        return False
    passes = history.passes
    if (passes is not None and passes <= 1) or unlike(history):
        return False
    learned = max(history.unigram - best, AT_UNIGRAM * history.unigram)
    gap = last - history.train_loss
    step = history.best.step
    is_falling_alone = history.train_loss < history.mean_loss(0.9 * step, step)
    has_risen = last - best > RISE * learned and is_falling_alone
    return gap > LARGE_GAP * learned or (has_risen and gap > GAP * learned)


def unlike(history: History) -> Verdict | None:
    """Returns a verdict if the training text predicts the held-out text far worse than its own parts."""
    measured, findings = history.analysis.held_out or {}, history.analysis.text or []
    bigram = measured.get("bigram")
    if not bigram or any(finding.kind in REPETITION for finding in findings):
        return None
    held_out, lowest, mean, highest = bigram
    if held_out <= highest + UNLIKE * mean:
        return None
    return Verdict(
        "unlike",
        "Counts of pairs of tokens (bigram) in the training text predict the held-out text with "
        f"{held_out:.3f} nats per token, and parts of the training text with {lowest:.3f} to "
        f"{highest:.3f}. The validation loss does not show what was learned of the training text.",
        "Set data.document_separator, so that the documents to hold out are drawn from the whole text, or "
        "train a new run on other files.",
    )


def _lowest(history: History) -> tuple[float, int]:
    """Returns the lowest mean training loss over `history.width` updates, and its step."""
    edges = np.arange(0, history.last_step + history.width, history.width)
    means = [
        (float(history.losses[inside].mean()), float(history.steps[inside].mean()))
        for low, high in pairwise(edges)
        if (inside := (history.steps > low) & (history.steps <= high)).any()
    ]
    loss, step = min(means, default=(math.nan, 0.0))
    return loss, round(step)


def _longer(history: History) -> str:
    if history.analysis.state == "interrupted":
        return "Resume it: `minigpt train --resume RUN`."
    training, changes = history.config.training, ""
    seconds = 2 * history.last.seconds if history.epochs else 0.0
    ended_by_time = training.max_minutes and training.step_limits
    if training.max_minutes and (ended_by_time or seconds > 60 * training.max_minutes):
        changes = f" --set training.max_minutes={2 * training.max_minutes:g}"
    if not ended_by_time or history.last.epoch >= training.epochs:
        changes += f" --set training.epochs={2 * training.epochs}"
    return f"Train it for twice as long: `minigpt train --resume RUN{changes}`."


def overfitted(history: History) -> Verdict | None:
    """Returns a verdict if the last state predicts the training text far better than held-out text."""
    if not has_overfitted(history):
        return None
    best, train_loss = history.best, history.train_loss
    evidence = (
        f"Nats per token: {train_loss:.3f} in training, {history.last.val_loss:.3f} in validation."
    )
    if best is not history.last:
        evidence += f" The best validation loss was {best.val_loss:.3f}, after epoch {best.epoch}."
    return Verdict("overfitted", evidence, _less_memory(history))


def memorized(history: History) -> Verdict | None:
    """Returns a verdict if much of what the last state writes is copied from the training text."""
    measured = history.memorization
    if not measured or not measured.has_memorized:
        return None
    return Verdict("memorized", f"The last state: {measured.in_words()}", _less_memory(history))


def _less_memory(history: History) -> str:
    if history.config.training.init_from:
        return ""  # Nothing was tried on such runs.
    if history.config.model.dropout_rate >= MOST_DROPOUT:
        return "Add text, and train a new run."
    return f"Train a new run with more text, or with `--set model.dropout_rate={MOST_DROPOUT}`."


def too_small(history: History) -> Verdict | None:
    """Returns a verdict if the model has learned what it can and the text has more."""
    parameters, tokens = history.parameters, history.train_tokens
    train_loss, val_loss = history.train_loss, history.last.val_loss
    learned = history.unigram - val_loss
    is_known = parameters and tokens and history.train_bytes and math.isfinite(history.uniform)
    if history.config.training.init_from or not is_known or not math.isfinite(learned):
        return None
    chosen = size_for(history.train_bytes, round(math.exp(history.uniform)))
    is_small = tokens > TOKENS_PER_PARAMETER * parameters and parameters * SIZE_FACTOR < chosen
    is_flat = last_gain(history) < STILL_FALLING * max(learned, 0.0)
    has_gap = val_loss - train_loss >= NO_GAP * learned
    if not is_small or not is_flat or has_gap or diverging(history):
        return None
    return Verdict(
        "too_small",
        f"The model has {parameters:,} parameters for {tokens:,} tokens of training text. Its training "
        f"loss, {train_loss:.3f} nats per token, is close to its validation loss, {val_loss:.3f}, and "
        "neither would fall much with more steps.",
        f"Use a model of at least {rounded(chosen)} parameters: a larger model.embed_dim or "
        "model.num_layers.",
    )


def suspicious_text(history: History) -> Verdict | None:
    """Returns a verdict if the checks of the text found something."""
    found = history.analysis.text or []
    evidence = " ".join(finding.evidence for finding in found)
    action = "Remove this from the text, and train a new run."
    if hasattr(history.config.data, "duplicates") and any(f.kind in REPETITION[:2] for f in found):
        action = (
            f'Train a new run with data.duplicates = "drop"; copies in a document need {DIVIDE}.'
        )
    return Verdict("suspicious_text", evidence, action) if evidence else None


# In the order in which the verdicts are shown: the first one may be the reason for the others.
RULES: tuple[Callable[[History], Verdict | None], ...] = (
    diverging,
    not_learning,
    unlike,
    suspicious_text,
    too_short,
    no_better,
    overfitted,
    memorized,
    too_small,
    below_ngram,
)


def diagnose(history: History) -> list[Verdict]:
    """Returns the verdicts about the last state of a run; only the first action is kept."""
    rules = RULES
    if not history.epochs:
        rules = (diverging, suspicious_text) if history.has_failed else (suspicious_text,)
    found = [verdict for rule in rules if (verdict := rule(history))]
    if "diverging" in [each.id for each in found]:
        # How the loss falls has another cause then.
        found = [each for each in found if each.id not in ("too_short", "below_ngram", "too_small")]
    # To train a run from nothing speaks against training this one for longer.
    by_weight = sorted(found, key=lambda each: "--base none" not in each.action)
    first = next((each for each in by_weight if each.action), None)
    return [each if each is first else replace(each, action="") for each in found]


def figures(history: History) -> list[str]:
    """Returns what was measured, a line by subject."""
    analysis, lines = history.analysis, list[str]()
    if history.epochs:
        best, last = history.best, history.last.val_loss
        bits = f", {best.bits_per_byte:.3f} bits per byte" if best.bits_per_byte else ""
        lines.append(
            f"Loss: training {history.train_loss:.3f}, validation {last:.3f} nats per token; best "
            f"{best.val_loss:.3f}{bits}, after epoch {best.epoch:,}."
        )
    known = {name: value for name, value in vars(analysis.baselines).items() if value}
    for unit, end in (("nats per token", ""), ("bits per byte", "_bits_per_byte")):
        names = [name for name in known if name.endswith("_bits_per_byte") == bool(end)]
        named = (f"{n.removesuffix(end).replace('_', ' ')} {known[n]:.3f}" for n in names)
        lines.append(f"Baselines, {unit}: {', '.join(named) or 'not measured'}.")
    if measured := history.memorization:
        lines.append(measured.in_words())
    if bigram := (analysis.held_out or {}).get("bigram"):
        parts = f"in parts of the training text {bigram[1]:.3f} to {bigram[3]:.3f}"
        lines.append(f"Pairs of tokens: {bigram[0]:.3f} nats in the held-out text, {parts}.")
    return lines
