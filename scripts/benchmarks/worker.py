"""Runs one measurement in a new process: `python -m benchmarks.worker MODULE:FUNCTION JSON OUTPUT`.

The working folder is the one that all measurements share. This module imports nothing heavy, because
imports are part of some measurements.
"""

import importlib
import json
import os
import sys
from pathlib import Path


def main() -> None:
    place, arguments, output = sys.argv[1:]
    module, function = place.split(":")
    measure = getattr(importlib.import_module(f"benchmarks.{module}"), function)
    Path(output).write_text(json.dumps(measure(**json.loads(arguments))))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of some libraries hang at exit.
    os._exit(0)


if __name__ == "__main__":
    main()
