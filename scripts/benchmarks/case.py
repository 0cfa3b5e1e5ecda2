"""One case: what is measured, for how long, and the targets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.measuring import Outcome
from benchmarks.report import Target
from benchmarks.rounds import Measurement

TOKENS = "tokens/s"

Outcomes = Mapping[str, Sequence[Outcome]]


@dataclass(frozen=True)
class Case:
    """One case of the benchmark.

    Attributes:
      name: its name in the report.
      unit: the unit of the values.
      target: the targets.
      ours: the measurement of minigpt.
      peers: the measurements of the programs it is compared with, by name.
      prepare: run once before the measurements; not measured.
      others: measured in every round for `checks` and the notes; not used for ratios.
      once: measured once, for `checks`.
      limit: the roofline of the machine, in the same unit.
      checks: additional conditions, computed from all outcomes by name ("ours" among them).
      notes: remarks for the reader of the report.
      all_rounds: whether every peer is measured in every round, even one that is far behind.
      rounds: 5 for short measurements, 3 for long ones.
      budget_seconds: time for all rounds; a round that would end later is not started.
    """

    name: str
    unit: str
    target: Target
    ours: Measurement
    peers: Mapping[str, Measurement]
    more_is_better: bool = True
    prepare: tuple[Measurement, ...] = ()
    others: Mapping[str, Measurement] = field(default_factory=dict)
    once: Mapping[str, Measurement] = field(default_factory=dict)
    limit: Measurement | None = None
    checks: Callable[[Outcomes], dict[str, bool]] = lambda outcomes: {}
    notes: tuple[str, ...] = ()
    all_rounds: bool = False
    rounds: int = 5
    budget_seconds: float = 300

    def parties(self) -> list[Measurement]:
        """Returns all measurements and preparations of the case."""
        named = (*self.peers.values(), *self.others.values(), *self.once.values())
        return [self.ours, *named, *self.prepare, *([self.limit] if self.limit else [])]


def same_arguments(
    name: str,
    unit: str,
    target: Target,
    ours: str,
    peers: Mapping[str, str],
    arguments: Mapping[str, Any],
    **options: Any,
) -> Case:
    """Returns a case in which minigpt and all peers are measured with the same arguments.

    Args:
      ours: the function that measures minigpt, as `Measurement.place`.
      peers: the function that measures a peer, by the peer's name.
      **options: of `Case`.
    """
    measured = {peer: Measurement(place, arguments) for peer, place in peers.items()}
    return Case(name, unit, target, Measurement(ours, arguments), measured, **options)
