"""Runs one case, from its preparation to its line in the report."""

import time
from collections.abc import Iterable, Sequence

from benchmarks.case import Case
from benchmarks.measuring import Outcome
from benchmarks.report import Result, median, number, summarize
from benchmarks.rounds import Runner, run_rounds

OURS = "ours"
# If other programs use more cores than this during a measurement, its figures are doubtful. PyTorch loses
# far more than that share, because its threads wait for each other in busy loops.
DISTURBING = 0.15


def run_case(case: Case, runner: Runner, rounds: int | None = None) -> Result:
    """Prepares a case, measures it in rounds and summarizes the results.

    Args:
      case: what to measure.
      runner: starts the processes.
      rounds: maximum number of rounds; the number of the case if None.
    """
    began = time.monotonic()
    notes = list(case.notes)
    failed = False
    for party in case.prepare:
        outcome = runner.measure(f"{case.name}: preparing", party)
        if reason := outcome.get("failed"):
            notes.append(f"preparing with {party.place} failed: {reason}")
            failed = True
    outcomes = {}
    if not failed:
        outcomes = run_rounds(
            runner,
            case.name,
            {OURS: case.ours, **case.peers, **case.others},
            rounds or case.rounds,
            case.budget_seconds,
            case.more_is_better,
            frozenset({OURS, *case.others, *(case.peers if case.all_rounds else ())}),
        )
        for name, party in case.once.items():
            outcomes[name] = [runner.measure(f"{case.name}: {name}", party)]
    for name in case.others:
        if (value := median(outcomes.get(name, []))) is not None:
            notes.append(f"{name}: {number(value)} {case.unit}")
    limit = None
    if case.limit is not None and not failed:
        measured = runner.measure(f"{case.name}: roofline", case.limit)
        limit = median([measured])
        outcomes["roofline"] = [measured]
    for name, of in outcomes.items():
        for outcome in of:
            for how in ("failed", "skipped"):
                if how in outcome:
                    notes.append(f"{name} {how}: {outcome[how]}")
    if note := disturbed(outcomes.values()):
        notes.append(note)
    result = summarize(
        case.name,
        case.unit,
        case.more_is_better,
        case.target,
        outcomes.get(OURS, []),
        {name: outcomes.get(name, []) for name in case.peers},
        limit,
        case.checks(outcomes) if outcomes else {},
        notes,
    )
    result.seconds = round(time.monotonic() - began, 1)
    return result


def disturbed(outcomes: Iterable[Sequence[Outcome]]) -> str:
    """Returns a warning if other programs ran during a measurement; "" if none did."""
    most = max((of.get("others", 0.0) for measured in outcomes for of in measured), default=0.0)
    return (
        f"doubtful: other programs used {most:.1f} cores during a measurement"
        if most > DISTURBING
        else ""
    )
