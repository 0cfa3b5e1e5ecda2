"""The age and the memory of this process."""

import contextlib
import os
import resource
import sys
import time
from pathlib import Path

_PROC = Path("/proc/self")
_IMPORTED = time.perf_counter()


def seconds_of_process() -> float:
    """Returns the seconds since this process was started; elsewhere than on Linux, since this import."""
    try:
        # The command's name may contain blanks; 22 fields follow its parenthesis.
        fields = (_PROC / "stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.perf_counter() - _IMPORTED


def peak_memory() -> int:
    """Returns the largest resident memory of this process in bytes."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = (_PROC / "status").read_text().splitlines()
        return 1024 * int(next(x for x in lines if x.startswith("VmHWM:")).split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def reset_peak_memory() -> None:
    """Resets the maximum that `peak_memory` returns, if the system supports it."""
    with contextlib.suppress(OSError):
        (_PROC / "clear_refs").write_text("5")
