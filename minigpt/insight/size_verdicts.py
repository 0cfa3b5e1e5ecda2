"""Verdicts about the size of the model: memorized, too large, too small."""

import math

from minigpt.config.fit import sizes_for
from minigpt.insight.history import History
from minigpt.insight.learning_verdicts import (
    STILL_FALLING,
    diverging,
    gain_of_twice,
    has_memorized,
    last_memorization,
)
from minigpt.insight.verdict import Verdict
from minigpt.runs.records import number

# The share of copied tokens is this much above that of held-out text.
COPIED = 0.2
# Larger or smaller than what is chosen for a text of this size, by this factor.
FACTOR = 8
# Parameters of a model that cannot hold a text: more tokens than this for each.
TOKENS_PER_PARAMETER = 20
# The validation loss is above the training loss by less than this share of what was learned.
NO_GAP = 0.05


def memorized(history: History) -> Verdict | None:
    """Returns a verdict if the last state has memorized the training text."""
    evidence = []
    if has_memorized(history):
        losses = (
            f"The training loss is {history.train_loss:.3f} nats per token, the validation loss "
            f"{history.last.val_loss:.3f}."
        )
        if history.best is not history.last:
            losses += (
                f" The best validation loss was {history.best.val_loss:.3f}, after epoch "
                f"{history.best.epoch:,}."
            )
        evidence.append(losses)
    measured = last_memorization(history)
    share, held_out = (number(measured.get(key)) for key in ("share", "held_out_share"))
    if share is not None and held_out is not None and share - held_out >= COPIED:
        evidence.append(
            f"{share:.0%} of the tokens that the model writes are in passages copied from the training "
            f"text; of held-out text, {held_out:.0%} is."
        )
    if not evidence:
        return None
    return Verdict(
        "memorized",
        " ".join(evidence),
        "Add text. If there is none, train for fewer epochs or set model.dropout_rate = "
        f"{min(0.5, history.config.model.dropout_rate + 0.2):.1f}.",
    )


def too_large(history: History) -> Verdict | None:
    """Returns a verdict if the model has far more parameters than the text can fill."""
    ratio = _tokens_per_parameter(history)
    sizes = _suitable_sizes(history)
    if ratio is None or sizes is None or ratio >= 1:
        return None
    largest = sizes[1]
    overfits = has_memorized(history) and history.parameters > 2 * largest
    if history.parameters <= FACTOR * largest and not overfits:
        return None
    return Verdict(
        "too_large",
        f"The model has {history.parameters:,} parameters for {history.train_tokens:,} tokens of training "
        f"text, {1 / ratio:,.1f} for each token. minigpt would choose at most {_rounded(largest)} for "
        "such a text.",
        f"Use a model of at most {_rounded(largest)} parameters: a smaller model.embed_dim or "
        "model.num_layers.",
    )


def too_small(history: History) -> Verdict | None:
    """Returns a verdict if the model has learned what it can and the text has more."""
    ratio, gain, sizes = (
        _tokens_per_parameter(history),
        gain_of_twice(history),
        _suitable_sizes(history),
    )
    learned = history.unigram - history.last.val_loss
    if ratio is None or gain is None or sizes is None or not math.isfinite(learned):
        return None
    gap = history.last.val_loss - history.train_loss
    is_small = ratio > TOKENS_PER_PARAMETER and history.parameters * FACTOR < sizes[0]
    is_flat = gain < STILL_FALLING * max(learned, 0.0) and gap < NO_GAP * learned
    if not is_small or not is_flat or diverging(history):
        return None
    return Verdict(
        "too_small",
        f"The model has {history.parameters:,} parameters for {history.train_tokens:,} tokens of training "
        f"text. Its training loss, {history.train_loss:.3f} nats per token, is close to its validation "
        f"loss, {history.last.val_loss:.3f}, and neither would fall much with more steps.",
        f"Use a model of at least {_rounded(sizes[0])} parameters: a larger model.embed_dim or "
        "model.num_layers.",
    )


def _tokens_per_parameter(history: History) -> float | None:
    """None if unknown, and for models that began with the weights of another run."""
    is_trained_here = history.config.training.init_from is None
    if not is_trained_here or not history.parameters or not history.train_tokens:
        return None
    return history.train_tokens / history.parameters


def _suitable_sizes(history: History) -> tuple[int, int] | None:
    """Returns the numbers of parameters that are chosen for such a text in little and in much time."""
    if not history.train_bytes:
        return None
    vocab_size = round(math.exp(history.uniform)) if math.isfinite(history.uniform) else 0
    return sizes_for(history.train_bytes, vocab_size)


def _rounded(number: int) -> str:
    """Returns a number with two digits: "490,000"."""
    unit = 10 ** max(0, len(str(number)) - 2)
    return f"{round(number / unit) * unit:,}"
