"""The cases of the page: how soon its model can be used, and how fast it writes."""

from benchmarks.case import TOKENS, Case, Outcomes
from benchmarks.page import DEFAULT, LARGE
from benchmarks.report import Target, median
from benchmarks.rounds import Measurement

_FIRST_TOKEN = "first token"


def page(quick: bool) -> list[Case]:
    """Three cases: opening the default model and one of 124 million parameters, and writing."""
    return [
        _opening("page-open", DEFAULT, "float32", 1.0, 0.1),
        _speed(quick),
        _opening("page-open-124m-int8", LARGE, "int8", 5.0, None),
    ]


def _opening(
    name: str, model: str, weights: str, seconds: float, first_token: float | None
) -> Case:
    arguments = {"model": model, "weights": weights}
    words = f"≤ {seconds:g} s" + ("" if first_token is None else f", first token ≤ {first_token} s")

    def checks(outcomes: Outcomes) -> dict[str, bool]:
        limits = {"ours": seconds}
        if first_token is not None:
            limits[_FIRST_TOKEN] = first_token
        medians = {party: median(outcomes[party]) for party in limits}
        return {
            f"{party}: at most {limit:g} s": (value := medians[party]) is not None
            and value <= limit
            for party, limit in limits.items()
        }

    return Case(
        name,
        "s",
        Target(words=words),
        Measurement("page:opened", arguments),
        {},
        more_is_better=False,
        prepare=(Measurement("page:prepare", arguments),),
        others={_FIRST_TOKEN: Measurement("page:first_token", arguments)},
        checks=checks,
        notes=("Chromium without a window; from the start of the navigation",),
        budget_seconds=80,
    )


def _speed(quick: bool) -> Case:
    length = {"new_tokens": 20 if quick else 200, "calls": 1 if quick else 40}
    arguments = {"model": DEFAULT, "weights": "float32"}

    def checks(outcomes: Outcomes) -> dict[str, bool]:
        value = median(outcomes["ours"])
        return {"at least 2,000 tokens/s": value is not None and value >= 2000}

    return Case(
        "page-speed",
        TOKENS,
        Target(words="≥ 2,000 tokens/s"),
        Measurement("page:speed", {**arguments, **length}),
        {"the engine in Python": Measurement("page:engine", length)},
        prepare=(Measurement("page:prepare", arguments),),
        checks=checks,
        notes=("sampling with the settings of the default configuration; one text at a time",),
        budget_seconds=80,
    )
