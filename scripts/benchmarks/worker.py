"""Runs one measurement in a new process: `python -m benchmarks.worker MODULE:FUNCTION JSON OUTPUT`.

This module imports nothing heavy, because imports are part of some measurements.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path

from benchmarks.measuring import Context


def main() -> None:
    place, arguments, output = sys.argv[1:]
    started = float(os.environ.get("BENCHMARK_STARTED", time.time()))
    module, function = place.split(":")
    context = Context(started, Path(os.environ["BENCHMARK_WORK"]))
    measure = getattr(importlib.import_module(f"benchmarks.{module}"), function)
    outcome = measure(context, **json.loads(arguments))
    Path(output).write_text(json.dumps(outcome))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of some libraries hang at exit.
    os._exit(0)


if __name__ == "__main__":
    main()
