"""Runs one case of time to quality: the peers first, then minigpt until it reaches their scores."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import Outcome
from benchmarks.quality import crossing
from benchmarks.quality_cases import Goal, QualityCase
from benchmarks.quality_report import QualityResult, Timing, summarize_quality
from benchmarks.rounds import Measurement, Runner
from benchmarks.running import OURS, disturbed


class Peers:
    """Trains the peers, and keeps their runs if they may be reused.

    A run is reused only by the object that measured it, so never on another day or machine.

    Args:
      runner: starts the processes.
      reuse: whether equal measurements are made once.
      machine: the description of the machine, for the record.
      record: a JSON file of the runs, for readers; nothing reads it back.
    """

    def __init__(self, runner: Runner, reuse: bool, machine: str, record: Path) -> None:
        self.runner, self.reuse, self.machine, self.record = runner, reuse, machine, record
        self._runs: dict[str, Outcome] = {}

    def run(self, name: str, party: Measurement) -> Outcome:
        """Measures a peer, or returns its run in this invocation."""
        key = json.dumps([party.place, dict(party.arguments)], sort_keys=True)
        if self.reuse and key in self._runs:
            return self._runs[key] | {"reused": True}
        outcome = self.runner.measure(name, party)
        if self.reuse and "ends" in outcome:
            self._runs[key] = outcome
            record = {"machine": self.machine, "runs": self._runs}
            self.record.write_text(json.dumps(record, indent=1) + "\n")
        return outcome


def run_quality_case(
    case: QualityCase,
    peers: Peers,
    rounds: int | None = None,
    overrides: Sequence[str] = (),
) -> list[QualityResult]:
    """Measures a case in rounds; returns a result for each goal.

    Args:
      rounds: maximum number of rounds; the number of the case if None.
      overrides: settings of our side, as `SECTION.KEY=VALUE`.
    """
    began = time.monotonic()
    notes = [*case.notes, *(f"minigpt with {override}" for override in overrides)]
    timings: dict[Goal, list[Timing]] = {goal: [] for goal in case.goals}
    outcomes: list[Outcome] = []
    measure = peers.runner.measure
    for party in case.prepare:
        outcome = measure(f"{case.name}: preparing", party)
        if "failed" in outcome:
            notes.append(f"preparing with {party.place} failed: {outcome['failed']}")
            return [summarize_quality(case, goal, [], notes) for goal in case.goals]
    total = min(case.rounds, rounds or case.rounds)
    for number in range(total):
        of = f"round {number + 1} of {total}"
        runs = {
            name: peers.run(f"{case.name}: {name}, {of}", party)
            for name, party in case.peers.items()
        }
        to_reach = {goal: score_to_reach(goal, runs) for goal in case.goals}
        scores = [score for score, _, _ in to_reach.values() if score is not None]
        ours: Outcome = {"points": []}
        if scores:
            ours = measure(f"{case.name}: {OURS}, {of}", case.ours(scores, overrides))
        for goal, (score, name, seconds) in to_reach.items():
            points = ours.get("points", [])
            reached = crossing(points, score) if score is not None else None
            timings[goal].append(Timing(score, name, seconds, reached, points[-1:]))
        outcomes += [*runs.values(), ours]
        notes += last_scores(of, case.unit, {**runs, OURS: ours})
        failures = {
            name: run["failed"] for name, run in {**runs, OURS: ours}.items() if "failed" in run
        }
        notes += [f"{name} failed: {reason}" for name, reason in failures.items()]
        if any(run.get("reused") for run in runs.values()):
            notes.append(f"{of}: the peers' runs are those of an earlier round or case")
        if failures:
            break
    if note := disturbed([outcomes]):
        notes.append(note)
    results = [summarize_quality(case, goal, of, notes) for goal, of in timings.items()]
    results[0].seconds = round(time.monotonic() - began, 1)
    return results


def last_scores(of: str, unit: str, runs: dict[str, Outcome]) -> list[str]:
    """Returns a remark with the last score of each side, in adjacent and in overlapping windows."""
    scores = []
    for name, run in runs.items():
        if run.get("overlapping") is not None:
            seconds, _, score = run["points"][-1]
            scores.append(f"{name} {score:.3f} and {run['overlapping']:.3f} after {seconds:.0f} s")
    if not scores:
        return []
    return [f"{of}: last {unit} in adjacent and in overlapping windows: {'; '.join(scores)}"]


def score_to_reach(goal: Goal, runs: dict[str, Outcome]) -> tuple[float | None, str, float | None]:
    """Returns the score of a goal, the peer that set it or reached it first, and that peer's seconds.

    The score is None if no peer has a run; the seconds are None if no peer reached the score.
    """
    if goal.fixed is not None:
        times = {
            name: seconds
            for name, run in runs.items()
            if (seconds := crossing(run.get("points", []), goal.fixed)) is not None
        }
        name = min(times, key=lambda name: times[name], default="")
        return goal.fixed, name, times.get(name)
    ends = {name: run["ends"][goal.end] for name, run in runs.items() if run.get("ends")}
    if not ends:
        return None, "", None
    name = min(ends, key=lambda name: ends[name][2])
    seconds, _, score = ends[name]
    return score, name, seconds
