"""Shared by all measurements: the context of a process, its memory, and the speed of steady steps."""

import resource
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The result of a measurement: "value" in the unit of the case, "memory" in bytes, and values that checks
# need; or "skipped" with the reason.
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Context:
    """The context of one measurement.

    Attributes:
      started: start time of the process, as `time.time()` gives it.
      work: a folder that all measurements share.
    """

    started: float
    work: Path

    def seconds(self) -> float:
        """Returns the seconds since the process was started."""
        return time.time() - self.started


def resident(field: str = "VmRSS") -> int:
    """Returns the memory of this process in bytes: VmRSS, VmHWM (the peak) or RssAnon, as Linux counts."""
    status = Path("/proc/self/status")
    if not status.exists():
        # macOS reports the peak, in bytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(line for line in status.read_text().splitlines() if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


class SteadySpeed:
    """Measures tokens per second, without the first steps, which include compilation.

    Args:
      tokens_per_step: B · T.
      first: number of steps at the beginning that are not counted.
      steps, seconds: the measurement ends after at least this many steps and this much time.
    """

    def __init__(self, tokens_per_step: int, first: int, steps: int, seconds: float) -> None:
        self.tokens_per_step = tokens_per_step
        self.first, self.steps, self.seconds = first, steps, seconds
        self._began: tuple[float, int] | None = None
        self.tokens_per_second = 0.0
        self.counted = 0

    def seen(self, step: int) -> bool:
        """Records that `step` updates are done; returns whether the measurement is complete."""
        now = time.perf_counter()
        if self._began is None:
            if step >= self.first:
                self._began = (now, step)
            return False
        seconds, self.counted = now - self._began[0], step - self._began[1]
        self.tokens_per_second = self.counted * self.tokens_per_step / seconds
        return self.counted >= self.steps and seconds >= self.seconds


def needs_compiler() -> str | None:
    """Returns why torch.compile cannot run here; None if it can."""
    if not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        return "no C++ compiler, which torch.compile needs"
    if sys.version_info >= (3, 15):
        return "torch.compile does not support this Python version yet"
    return None
