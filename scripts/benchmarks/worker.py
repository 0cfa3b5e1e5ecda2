"""One measurement in a process of its own: `python -m benchmarks.worker MODULE:FUNCTION JSON OUTPUT`.

Nothing heavy is imported here: what a measurement imports is part of what it measures.
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
    # What threads of a library are left does not matter any more, and some hang at exit.
    os._exit(0)


if __name__ == "__main__":
    main()
