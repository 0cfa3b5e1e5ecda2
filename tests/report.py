"""Counts the cases of the tests of faults and of bad input, and prints them at the end of the session."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

# In this order; what was not counted is not told.
COUNTED = ("rounds", "kills", "faults", "inputs", "lost work")
LOST_WORK = ("tests/faults/", "tests/training/test_resume")
_SHOWN = {
    "rounds": "processes that train or write",
    "kills": "of them killed",
    "faults": "of them met by another fault",
    "inputs": "bad and odd inputs tried",
    "lost work": "tests that found work lost",
}


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """`tally(rounds=1, kills=1)` counts; works under xdist too."""

    def count(**numbers: int) -> None:
        for name, number in numbers.items():
            record_property(f"tally {name.replace('_', ' ')}", number)

    return count


def pytest_terminal_summary(terminalreporter: Any) -> None:
    total: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                for name, number in report.user_properties:
                    if name.startswith("tally "):
                        total[name.removeprefix("tally ")] += number
    if total:
        failed = [report.nodeid for report in terminalreporter.stats.get("failed", [])]
        # Each of them ends by comparing what is there with what should be.
        total["lost work"] = sum(name.startswith(LOST_WORK) for name in failed)
        terminalreporter.section("faults and bad input")
        for name in COUNTED:
            if name in total:
                terminalreporter.line(f"{total[name]:>9,}  {_SHOWN[name]}")
