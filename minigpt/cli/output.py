"""Printing text of models, messages and JSON."""

import json
import math
import re
import sys
from typing import Any

from minigpt.environment import printable


def print_text(text: str, end: str = "\n") -> None:
    """Prints text of a model: unchanged to pipes and files, without control characters on terminals."""
    print(printable(text) if sys.stdout.isatty() else text, end=end, flush=True)


def print_message(line: str) -> None:
    """Prints a line for the user on standard error; control characters become escapes such as `\\x1b`."""
    print(printable(line), file=sys.stderr, flush=True)


def print_json(content: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Prints a record or a list of records as one line of JSON; numbers that are not finite become null."""
    is_list = isinstance(content, list)
    finite = [
        {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in record.items()
        }
        for record in (content if isinstance(content, list) else [content])
    ]
    line = json.dumps(finite if is_list else finite[0], ensure_ascii=False, allow_nan=False)
    # JSON allows these control characters, but a terminal interprets them. Surrogates, which stand for the
    # bytes of a file name that is not UTF-8, cannot be printed.
    line = re.sub(
        "[\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", line
    )
    print(line, flush=True)


class SampleHeadings:
    """Numbers and separates samples that are printed together; a single sample has no heading.

    Args:
      total: the number of samples.
    """

    def __init__(self, total: int) -> None:
        self._total, self._printed = total, 0

    def print_next(self, seed: int | None) -> None:
        """Prints the heading of the next sample.

        Args:
          seed: the sample's seed; None if it does not depend on one.
        """
        if self._total == 1:
            return
        if self._printed:
            print()
        self._printed += 1
        suffix = "" if seed is None else f", seed {seed}"
        print(f"--- sample {self._printed} of {self._total}{suffix} ---", flush=True)
