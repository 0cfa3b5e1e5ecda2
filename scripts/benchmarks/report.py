"""From measured values to ratios, marks, a table and JSON."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.box import HEAVY_HEAD, MARKDOWN
from rich.table import Table

from benchmarks.measuring import Outcome


@dataclass(frozen=True)
class Mark:
    """What is to be reached.

    Attributes:
      ratio: of ours to the best peer, over 1 = ours is better; at least.
      memory_ratio: our memory to that peer's; at most.
      share_of_limit: at least.
      words: what else has to hold, for the table.
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
            parts.append(f"≥ {self.share_of_limit:.0%} of the limit")
        return ", ".join([*parts, self.words] if self.words else parts)


@dataclass
class Result:
    """One line of the report; see `summarize`.

    `ours` and the values of `peers` are medians in `unit`, None or left out where nothing was measured.
    `checks` are what else has to hold; `notes` say what a reader should know; `memory` is in bytes, ours
    and the peers'; `rounds` counts measurements of ours.
    """

    case: str
    ours: float | None
    unit: str
    peers: dict[str, float]
    ratio: float | None
    memory_ratio: float | None
    limit: float | None
    share_of_limit: float | None
    mark: str
    holds: bool
    checks: dict[str, bool] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    memory: dict[str, float] = field(default_factory=dict)
    rounds: int = 0
    seconds: float = 0.0


def median(outcomes: Sequence[Outcome], key: str = "value") -> float | None:
    """Of what was measured; None if nothing was."""
    values = [outcome[key] for outcome in outcomes if outcome.get(key) is not None]
    return float(statistics.median(values)) if values else None


def summarize(
    case: str,
    unit: str,
    more_is_better: bool,
    mark: Mark,
    ours: Sequence[Outcome],
    peers: Mapping[str, Sequence[Outcome]],
    limit: float | None = None,
    checks: Mapping[str, bool] | None = None,
    notes: Sequence[str] = (),
) -> Result:
    """Medians, ratios, and whether the mark is reached.

    Args:
      case, unit, mark: as reported.
      more_is_better: whether a larger value is the better one.
      ours: a measurement each.
      peers: by name; those without a value do not count.
      limit: in the same unit.
      checks: what else has to hold.
      notes: go into the report.
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
        (ratio, mark.ratio, 1),
        (memory_ratio, mark.memory_ratio, -1),
        (share, mark.share_of_limit, 1),
    ):
        # What is asked for and was not measured does not hold.
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
        str(mark),
        holds,
        checks,
        list(notes),
        {n: m for n, of in {"ours": ours, **peers}.items() if (m := median(of, "memory"))},
        len([outcome for outcome in ours if outcome.get("value") is not None]),
    )


def failed(result: Result) -> bool:
    """Whether a measurement of it ended with an error."""
    return any(" failed: " in note for note in result.notes)


def write_json(path: Path, results: Sequence[Result]) -> None:
    path.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")


def number(value: float | None) -> str:
    """Three figures, or all before the point."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(results: Sequence[Result], markdown: bool = False) -> Table:
    """All lines; as Markdown, to be put into a file."""
    box = MARKDOWN if markdown else HEAVY_HEAD
    columns = ("case", "ours", "peers", "ratio", "memory", "of the limit", "mark", "holds")
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
            result.mark,
            "[green]yes[/]" if result.holds else "[red]no[/]",
        )
    return shown


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{number(ratio)} ×"


def remarks(results: Sequence[Result]) -> list[str]:
    """What the table has no room for."""
    lines = []
    for result in results:
        if result.memory_ratio is not None:
            megabytes = (f"{name} {number(m / 1e6)}" for name, m in result.memory.items())
            lines.append(f"{result.case}: memory in MB: {'; '.join(megabytes)}")
        for check, holds in result.checks.items():
            lines.append(f"{result.case}: {check}: {'yes' if holds else 'no'}")
        lines += [f"{result.case}: {note}" for note in result.notes]
    return lines
