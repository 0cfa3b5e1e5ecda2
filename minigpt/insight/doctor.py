"""The doctor: what is wrong with a training, in words, each with its evidence and one thing to do."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from minigpt.insight.history import History
from minigpt.insight.learning_rate import learning_rate_verdict
from minigpt.insight.learning_verdicts import diverging, not_learning, too_short, unlike
from minigpt.insight.size_verdicts import memorized, too_large, too_small
from minigpt.insight.verdict import Verdict

Rule = Callable[[History], Verdict | None]

# In the order in which the verdicts are shown: the first one may be the reason for the others.
RULES: tuple[Rule, ...] = (diverging, not_learning)
LATER_RULES: tuple[Rule, ...] = (unlike, too_short, memorized, too_large, too_small)


def diagnose(history: History) -> list[Verdict]:
    """Judges the last state of a training.

    The text and the learning rate are judged only if analysis.json has `text` and `sweep`.

    Args:
      history: the training.
    Returns:
      The verdicts; none if nothing is wrong, or if there is nothing to judge.
    """
    suspicious = suspicious_text(history)
    texts = [suspicious] if suspicious else []
    if not history.epochs:
        failed = diverging(history) if history.has_failed else None
        return ([failed] if failed else []) + texts
    rate = learning_rate_verdict(history)
    first = _found(RULES, history)
    if rate:
        # The same reason, and the same thing to do.
        first = [
            replace(each, action=rate.action) if each.id == "not_learning" else each
            for each in first
        ]
    later = _found(LATER_RULES, history)
    if any(
        each.id in ("diverging", "learning_rate_high")
        for each in [*first, *([rate] if rate else [])]
    ):
        # The loss falls, or does not, for another reason.
        later = [each for each in later if each.id not in ("too_short", "too_small")]
    return [*first, *([rate] if rate else []), *later, *texts]


def suspicious_text(history: History) -> Verdict | None:
    """Returns a verdict if the checks of the text found something."""
    findings = history.analysis.get("text")
    evidence = [
        finding["evidence"]
        for finding in (findings if isinstance(findings, list) else [])
        if isinstance(finding, dict) and isinstance(finding.get("evidence"), str)
    ]
    if not evidence:
        return None
    return Verdict(
        "suspicious_text",
        " ".join(evidence),
        "Remove this from the text, and train a new run.",
    )


def _found(rules: Sequence[Rule], history: History) -> list[Verdict]:
    return [verdict for rule in rules if (verdict := rule(history))]


def as_records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Returns verdicts as JSON values: `id`, `evidence`, `action`."""
    return [verdict.as_dict() for verdict in verdicts]
