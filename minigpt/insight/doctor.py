"""The doctor: verdicts about what is wrong with a run, each with its evidence and one thing to do."""

import math
from collections.abc import Callable
from dataclasses import replace

from minigpt.config.fit import sizes_for
from minigpt.insight.history import History
from minigpt.insight.learning_verdicts import (
    STILL_FALLING,
    below_ngram,
    diverging,
    has_memorized,
    last_gain,
    not_learning,
    too_short,
    unlike,
)
from minigpt.runs.analysis import Verdict

# The share of copied tokens is this much above that of held-out text.
COPIED = 0.2
# Larger or smaller than what is chosen for a text of this size, by this factor.
SIZE_FACTOR = 8
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
    measured = history.memorization
    if measured and measured.share - measured.held_out_share >= COPIED:
        evidence.append(
            f"{measured.share:.0%} of the tokens that the model writes are in passages copied from the "
            f"training text; of held-out text, {measured.held_out_share:.0%} is."
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
    sizes = _sizes(history)
    if sizes is None or history.train_tokens >= history.parameters:
        return None
    largest = sizes[1]
    overfits = has_memorized(history) and history.parameters > 2 * largest
    if history.parameters <= SIZE_FACTOR * largest and not overfits:
        return None
    return Verdict(
        "too_large",
        f"The model has {history.parameters:,} parameters for {history.train_tokens:,} tokens of training "
        f"text, {history.parameters / history.train_tokens:,.1f} for each token. minigpt would choose at "
        f"most {_rounded(largest)} for such a text.",
        f"Use a model of at most {_rounded(largest)} parameters: a smaller model.embed_dim or "
        "model.num_layers.",
    )


def too_small(history: History) -> Verdict | None:
    """Returns a verdict if the model has learned what it can and the text has more."""
    sizes, gain = _sizes(history), last_gain(history)
    learned = history.unigram - history.last.val_loss
    if sizes is None or not math.isfinite(learned):
        return None
    ratio = history.train_tokens / history.parameters
    gap = history.last.val_loss - history.train_loss
    is_small = ratio > TOKENS_PER_PARAMETER and history.parameters * SIZE_FACTOR < sizes[0]
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


def _sizes(history: History) -> tuple[int, int] | None:
    """Returns the numbers of parameters that are chosen for the text with a short and a long time limit.

    None if the sizes of the text or the model are unknown, and for models that began with the weights of
    another run.
    """
    is_trained_here = history.config.training.init_from is None
    known = history.parameters and history.train_tokens and history.train_bytes
    if not is_trained_here or not known:
        return None
    vocab_size = round(math.exp(history.uniform)) if math.isfinite(history.uniform) else 0
    return sizes_for(history.train_bytes, vocab_size)


def _rounded(number: int) -> str:
    """Returns a number with two digits: "490,000"."""
    unit = 10 ** max(0, len(str(number)) - 2)
    return f"{round(number / unit) * unit:,}"


def suspicious_text(history: History) -> Verdict | None:
    """Returns a verdict if the checks of the text found something."""
    evidence = [finding.evidence for finding in history.analysis.text or []]
    if not evidence:
        return None
    action = "Remove this from the text, and train a new run."
    return Verdict("suspicious_text", " ".join(evidence), action)


# In the order in which the verdicts are shown: the first one may be the reason for the others.
RULES: tuple[Callable[[History], Verdict | None], ...] = (
    diverging,
    not_learning,
    unlike,
    too_short,
    below_ngram,
    memorized,
    too_large,
    too_small,
    suspicious_text,
)


def diagnose(history: History) -> list[Verdict]:
    """Judges the last state of a run.

    The text is judged only if it was examined.

    Args:
      history: the history of the run.
    Returns:
      The verdicts; none if nothing is wrong, or if there is nothing to judge.
    """
    rules = RULES
    if not history.epochs:
        rules = (diverging, suspicious_text) if history.has_failed else (suspicious_text,)
    found = {verdict.id: verdict for rule in rules if (verdict := rule(history))}
    cause = found.get("not_learning") or found.get("memorized")
    if cause and "below_ngram" in found:
        # Two verdicts have the same cause, and therefore the same action.
        found["below_ngram"] = replace(found["below_ngram"], action=cause.action)
    if "diverging" in found:
        # How the loss falls has another cause then.
        found = {
            id: each
            for id, each in found.items()
            if id not in ("too_short", "below_ngram", "too_small")
        }
    return list(found.values())
