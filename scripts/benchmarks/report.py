"""Turns measured values into ratios, compares them with targets, and prints a table or JSON."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.box import HEAVY_HEAD, MARKDOWN
from rich.table import Table

from benchmarks.measuring import Outcome


@dataclass(frozen=True)
class Target:
    """The targets of a case.

    Attributes:
      ratio: minimum ratio to the best peer; above 1 means that minigpt is better.
      memory_ratio: maximum ratio of our memory to that peer's.
      share_of_limit: minimum share of the roofline.
      words: additional conditions, as text for the table.
    """

    ratio: float | None = None
    memory_ratio: float | None = None
    share_of_limit: float | None = None
    words: str = ""

    def __str__(self) -> str:
        parts = []
        if self.ratio is not None:
            parts.append(f"≥ {self.ratio:.3g} ×")
        if self.memory_ratio is not None:
            parts.append(f"memory ≤ {self.memory_ratio:.3g} ×")
        if self.share_of_limit is not None:
            parts.append(f"≥ {self.share_of_limit:.0%} of roofline")
        return ", ".join([*parts, self.words] if self.words else parts)


@dataclass
class Result:
    """One line of the report; see `summarize`.

    `ours` and the values of `peers` are medians in `unit`, None or missing if nothing was measured.
    `checks` are other conditions; `notes` are remarks for the reader; `memory` is in bytes, for minigpt
    and its peers; `rounds` is the number of measurements of minigpt.
    """

    case: str
    ours: float | None
    unit: str
    peers: dict[str, float]
    ratio: float | None
    memory_ratio: float | None
    limit: float | None
    share_of_limit: float | None
    target: str
    met: bool
    checks: dict[str, bool] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    memory: dict[str, float] = field(default_factory=dict)
    rounds: int = 0
    seconds: float = 0.0


def median(outcomes: Sequence[Outcome], key: str = "value") -> float | None:
    """Returns the median of the measured values; None if there are none."""
    values = [outcome[key] for outcome in outcomes if outcome.get(key) is not None]
    return float(statistics.median(values)) if values else None


def summarize(
    case: str,
    unit: str,
    more_is_better: bool,
    target: Target,
    ours: Sequence[Outcome],
    peers: Mapping[str, Sequence[Outcome]],
    limit: float | None = None,
    checks: Mapping[str, bool] | None = None,
    notes: Sequence[str] = (),
) -> Result:
    """Computes medians and ratios, and whether the target is met.

    Args:
      case, unit, target: as reported.
      more_is_better: whether larger values are better.
      ours: the measurements of minigpt.
      peers: measurements by name; a peer without values is ignored.
      limit: the roofline, in the same unit.
      checks: additional conditions and whether they hold.
      notes: remarks for the report.
    """
    value = median(ours)
    values = {name: v for name, of in peers.items() if (v := median(of)) is not None}
    checks = dict(checks or {})
    ratio = memory_ratio = share = None
    if value is not None and values:
        best = (max if more_is_better else min)(values, key=lambda name: values[name])
        ratio = value / values[best] if more_is_better else values[best] / value
        memory, peer_memory = median(ours, "memory"), median(peers[best], "memory")
        if memory is not None and peer_memory:
            memory_ratio = memory / peer_memory
    if value is not None and limit is not None:
        share = value / limit if more_is_better else limit / value
    holds = value is not None and all(checks.values())
    for reached, wanted, sign in (
        (ratio, target.ratio, 1),
        (memory_ratio, target.memory_ratio, -1),
        (share, target.share_of_limit, 1),
    ):
        # A target without a measurement is not met.
        holds &= wanted is None or (reached is not None and sign * reached >= sign * wanted)
    return Result(
        case,
        value,
        unit,
        values,
        ratio,
        memory_ratio,
        limit,
        share,
        str(target),
        holds,
        checks,
        list(notes),
        {n: m for n, of in {"ours": ours, **peers}.items() if (m := median(of, "memory"))},
        len([outcome for outcome in ours if outcome.get("value") is not None]),
    )


def failed(result: Result) -> bool:
    """Returns whether a measurement of the case ended with an error."""
    return any(" failed: " in note for note in result.notes)


def write_json(path: Path, results: Sequence[Any]) -> None:
    """Writes results of any kind, one object each."""
    path.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")


def number(value: float | None) -> str:
    """Formats a value with three significant digits, or as an integer from 100 on."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(results: Sequence[Result], markdown: bool = False) -> Table:
    """Returns the table of all results, in Markdown for a file."""
    box = MARKDOWN if markdown else HEAVY_HEAD
    columns = ("case", "ours", "peers", "ratio", "memory", "share of roofline", "target", "met")
    shown = Table(*columns, box=box, show_lines=not markdown)
    for result in results:
        peers = [f"{name} {number(value)}" for name, value in result.peers.items()]
        shown.add_row(
            result.case,
            f"{number(result.ours)} {result.unit}",
            "; ".join(peers) or "–",
            _times(result.ratio),
            _times(result.memory_ratio),
            "–" if result.share_of_limit is None else f"{result.share_of_limit:.0%}",
            result.target,
            "[green]yes[/]" if result.met else "[red]no[/]",
        )
    return shown


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{number(ratio)} ×"


def remarks(results: Sequence[Result]) -> list[str]:
    """Returns the lines that the table has no column for."""
    lines = []
    for result in results:
        if result.memory_ratio is not None:
            megabytes = (f"{name} {number(m / 1e6)}" for name, m in result.memory.items())
            lines.append(f"{result.case}: memory in MB: {'; '.join(megabytes)}")
        for check, holds in result.checks.items():
            lines.append(f"{result.case}: {check}: {'yes' if holds else 'no'}")
        lines += [f"{result.case}: {note}" for note in result.notes]
    return lines
