"""What all measurements have in common: where they run, memory, steady speed."""

import resource
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What a measurement returns: "value" in the case's unit, "memory" in bytes, and what else a check needs;
# or "skipped", with the reason.
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Context:
    """Where a measurement runs.

    Attributes:
      started: when its process was started, in `time.time()`.
      work: a folder for what measurements share.
    """

    started: float
    work: Path

    def seconds(self) -> float:
        """Since the process was started."""
        return time.time() - self.started


def resident(field: str = "VmRSS") -> int:
    """Bytes of this process in memory: VmRSS, VmHWM (the most so far) or RssAnon, as Linux counts."""
    status = Path("/proc/self/status")
    if not status.exists():
        # macOS knows the most so far, in bytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(line for line in status.read_text().splitlines() if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


class SteadySpeed:
    """Tokens a second in the steps after the first ones, in which things compile.

    Args:
      tokens_per_step: B · T.
      first: steps that do not count.
      steps, seconds: the measurement ends when so many steps and so much time have been counted.
    """

    def __init__(self, tokens_per_step: int, first: int, steps: int, seconds: float) -> None:
        self.tokens_per_step = tokens_per_step
        self.first, self.steps, self.seconds = first, steps, seconds
        self._began: tuple[float, int] | None = None
        self.tokens_per_second = 0.0
        self.counted = 0

    def seen(self, step: int) -> bool:
        """Called after each update with their number so far; whether the measurement is over."""
        now = time.perf_counter()
        if self._began is None:
            if step >= self.first:
                self._began = (now, step)
            return False
        seconds, self.counted = now - self._began[0], step - self._began[1]
        self.tokens_per_second = self.counted * self.tokens_per_step / seconds
        return self.counted >= self.steps and seconds >= self.seconds


def needs_compiler() -> str | None:
    """Why torch.compile cannot run here; None if it can."""
    if not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        return "no C++ compiler, which torch.compile needs"
    if sys.version_info >= (3, 15):
        return "torch.compile does not know this Python yet"
    return None
