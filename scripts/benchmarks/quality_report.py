"""The table of time to quality: score to reach, who set it, seconds of both sides."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.box import HEAVY_HEAD, MARKDOWN
from rich.table import Table

from benchmarks.quality import Point
from benchmarks.quality_cases import Goal, QualityCase
from benchmarks.report import number


@dataclass(frozen=True)
class Timing:
    """One round of a goal.

    Attributes:
      score: the score to reach; None if no peer set one.
      peer: the peer that set it, or reached a fixed one first.
      peer_seconds, our_seconds: when it was reached; None if it was not.
      last: our last evaluation, if any.
    """

    score: float | None
    peer: str
    peer_seconds: float | None
    our_seconds: float | None
    last: Sequence[Point] = ()


@dataclass
class QualityResult:
    """One line of the table. The score to reach and the seconds are medians of the rounds.

    `ours` and `ratio` are None if a round did not reach the score; `last` then holds our last score and
    its seconds.
    """

    case: str
    score_to_reach: float | None
    unit: str
    set_by: str
    ours: float | None
    peer: float | None
    ratio: float | None
    target: str
    met: bool
    last: tuple[float, float] | None = None
    notes: list[str] = field(default_factory=list)
    rounds: int = 0
    seconds: float = 0.0


def summarize_quality(
    case: QualityCase, goal: Goal, timings: Sequence[Timing], notes: Sequence[str]
) -> QualityResult:
    """Computes the medians and the ratio, and whether the target is met."""
    ours = _median([timing.our_seconds for timing in timings])
    peer = _median([timing.peer_seconds for timing in timings])
    ratio = peer / ours if peer is not None and ours is not None else None
    met = ours is not None
    if goal.ratio is not None:
        met &= ratio is not None and ratio >= goal.ratio
    if goal.seconds is not None:
        met &= ours is not None and ours <= goal.seconds
    missed = [timing.last[-1] for timing in timings if timing.our_seconds is None and timing.last]
    names = sorted({timing.peer for timing in timings if timing.peer})
    set_by = goal.words if goal.fixed is not None else " or ".join([*names][:2]) + f" {goal.words}"
    return QualityResult(
        case.name,
        _median([timing.score for timing in timings]),
        case.unit,
        set_by.strip(),
        ours,
        peer,
        ratio,
        goal.target,
        met,
        (missed[0][2], missed[0][0]) if missed else None,
        list(notes),
        len(timings),
    )


def _median(values: Sequence[float | None]) -> float | None:
    """Returns the median; None if a value is missing."""
    found = [value for value in values if value is not None]
    return statistics.median(found) if found and len(found) == len(values) else None


def quality_failed(result: QualityResult) -> bool:
    """Returns whether a measurement of the case ended with an error."""
    return any(" failed: " in note for note in result.notes)


def quality_table(results: Sequence[QualityResult], markdown: bool = False) -> Table:
    """Returns the table, in Markdown for a file."""
    columns = ("case", "score to reach", "set by", "ours", "peer", "ratio", "target", "met")
    shown = Table(*columns, box=MARKDOWN if markdown else HEAVY_HEAD, show_lines=not markdown)
    for result in results:
        met = "[green]yes[/]" if result.met else "[red]no[/]"
        shown.add_row(
            result.case,
            "–" if result.score_to_reach is None else f"{result.score_to_reach:.3f} {result.unit}",
            result.set_by,
            _ours(result),
            "–" if result.peer is None else f"{number(result.peer)} s",
            "–" if result.ratio is None else f"{number(result.ratio)} ×",
            result.target or "–",
            met if result.target else "–",
        )
    return shown


def _ours(result: QualityResult) -> str:
    if result.ours is not None:
        return f"{number(result.ours)} s"
    if result.last is None:
        return "–"
    score, seconds = result.last
    return f"not reached: {score:.3f} after {number(seconds)} s"


def quality_remarks(results: Sequence[QualityResult]) -> list[str]:
    """Returns the lines that the table has no column for, each once."""
    lines = (f"{result.case}: {note}" for result in results for note in result.notes)
    return list(dict.fromkeys(lines))
