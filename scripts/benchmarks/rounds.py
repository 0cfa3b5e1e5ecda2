"""Runs measurements in turn, each in a separate process."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring import Outcome

SCRIPTS = Path(__file__).resolve().parents[1]
# A peer that is worse than the best one by this factor in the first round is not measured again.
FAR_BEHIND = 1.25
TIMEOUT_SECONDS = 1200


@dataclass(frozen=True)
class Measurement:
    """One measurement: a function of this package ("module:function") and its arguments."""

    place: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    timeout_seconds: int = TIMEOUT_SECONDS


@dataclass
class Runner:
    """Starts measurements.

    Attributes:
      work: the folder that measurements share.
      say: called with a line about the current measurement.
    """

    work: Path
    say: Callable[[str], None]

    def measure(self, name: str, party: Measurement) -> Outcome:
        """Runs a measurement; returns {"failed": the last line it printed} if it fails."""
        self.say(name)
        logs = self.work / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        stem = f"{time.time_ns()}-{''.join(c if c.isalnum() else '-' for c in name)}"
        output, log = logs / f"{stem}.json", logs / f"{stem}.log"
        command = [sys.executable, "-m", "benchmarks.worker", party.place]
        command += [json.dumps(dict(party.arguments)), str(output)]
        began, busy, own = time.monotonic(), _processor_seconds(), _own_seconds()
        with open(log, "wb") as said:
            try:
                subprocess.run(
                    command,
                    env=self._environment(),
                    cwd=self.work,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    timeout=party.timeout_seconds,
                )
            except subprocess.TimeoutExpired:
                return {
                    "failed": f"did not finish within {party.timeout_seconds} seconds; see {log}"
                }
        if not output.exists():
            lines = log.read_text(errors="replace").strip().splitlines() or ["nothing printed"]
            return {"failed": f"{lines[-1][:200]} (see {log})"}
        outcome: Outcome = json.loads(output.read_text())
        others = _processor_seconds() - busy - (_own_seconds() - own)
        return outcome | {"others": max(0.0, others) / (time.monotonic() - began)}

    def _environment(self) -> dict[str, str]:
        paths = [str(SCRIPTS), os.environ.get("PYTHONPATH", "")]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "MINIGPT_CACHE": str(self.work / "cache"),
            "KERAS_BACKEND": "tensorflow",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            # Downloads would disturb the measurement.
            "HF_HUB_OFFLINE": "1",
            "BENCHMARK_WORK": str(self.work),
            # Last, because the clock of `start` and `quality` begins here.
            "BENCHMARK_STARTED": repr(time.time()),
        }


def _processor_seconds() -> float:
    """Returns the processor time of all programs since boot, in seconds; 0 if unknown."""
    counts = Path("/proc/stat")
    if not counts.exists():
        return 0.0
    user, nice, system, _, _, *others = map(int, counts.read_text().splitlines()[0].split()[1:9])
    # Includes interrupts and time that a hypervisor gave to other machines.
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Returns the processor time of this process and of completed measurements, in seconds."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def run_rounds(
    runner: Runner,
    case: str,
    parties: Mapping[str, Measurement],
    rounds: int,
    budget_seconds: float,
    more_is_better: bool,
    kept: frozenset[str],
) -> dict[str, list[Outcome]]:
    """Measures A B C A B C …, for as many rounds as the time allows, and at least one.

    Args:
      parties: measurements by name, in order.
      budget_seconds: a round is not started if it would end later than this, judging by the previous round.
      more_is_better: whether larger values are better.
      kept: names that are measured in every round.
    """
    outcomes: dict[str, list[Outcome]] = {name: [] for name in parties}
    began = time.monotonic()
    taking_part, took = dict(parties), 0.0
    for number in range(rounds):
        round_began = time.monotonic()
        if number and round_began - began + took > budget_seconds:
            break
        took = 0.0
        for name, party in list(taking_part.items()):
            party_began = time.monotonic()
            outcome = runner.measure(f"{case}: {name}, round {number + 1} of {rounds}", party)
            outcomes[name].append(outcome)
            if "value" not in outcome:
                # It would fail again in the next round.
                del taking_part[name]
                continue
            took += time.monotonic() - party_began
        if not number:
            for name in far_behind(outcomes, more_is_better, kept):
                taking_part.pop(name, None)
    return outcomes


def far_behind(
    outcomes: Mapping[str, list[Outcome]], more_is_better: bool, kept: frozenset[str]
) -> set[str]:
    """Returns the peers whose first value is worse than the best peer's by more than FAR_BEHIND."""
    first = {
        name: of[0]["value"]
        for name, of in outcomes.items()
        if name not in kept and "value" in of[0]
    }
    if not first:
        return set()
    best = max(first.values()) if more_is_better else min(first.values())
    return {
        name
        for name, value in first.items()
        if (best / value if more_is_better else value / best) > FAR_BEHIND
    }
