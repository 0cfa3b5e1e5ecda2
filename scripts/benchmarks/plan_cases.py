"""The cases of `minigpt train --plan`: what it forecasts against what the training then takes."""

from benchmarks.case import Case, Outcomes
from benchmarks.our_plan import SYSTEMS
from benchmarks.quality_cases import Texts
from benchmarks.report import Target, number
from benchmarks.rounds import Measurement

# Percent.
ALLOWED = 30


def plan(texts: Texts) -> list[Case]:
    """The forecast and the training of six configurations; the value is the largest error."""
    paths = {"shakespeare": texts.shakespeare, "imdb": texts.imdb, "pairs": texts.pairs}
    return [
        Case(
            f"plan-{system}",
            "% error",
            Target(words=f"≤ {ALLOWED}%, loss in range"),
            Measurement("our_plan:compare", {"system": system, **paths}),
            peers={},
            more_is_better=False,
            checks=_checks,
            rounds=1,
            budget_seconds=120,
        )
        for system in SYSTEMS
    ]


def _checks(outcomes: Outcomes) -> dict[str, bool]:
    checks = {}
    for outcome in outcomes.get("ours", ()):
        if "errors" not in outcome:
            continue
        forecast, measured = outcome["forecast"], outcome["measured"]
        for name, unit, scale in (
            ("first_epoch_seconds", "s", 1),
            ("total_seconds", "s", 1),
            ("memory_bytes", "MB", 1e-6),
        ):
            words = f"{name}: {number(scale * forecast[name])} {unit} forecast"
            words += f", {number(scale * measured[name])} measured"
            checks[words] = abs(outcome["errors"][name]) <= ALLOWED
        if expected := forecast["expected_loss"]:
            low, high = expected["low"], expected["high"]
            words = f"loss: {low:.2f} to {high:.2f} forecast, {measured['loss']:.2f} measured"
            checks[words] = low <= measured["loss"] <= high
    return checks
