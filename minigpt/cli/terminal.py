"""Reading lines, from a file, a pipe or a terminal, and printing text of models, messages and JSON."""

import importlib
import json
import math
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from minigpt.environment import printable
from minigpt.errors import UserError


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


# The lines are held in memory.
MAX_BYTES = 100_000_000


def input_lines(file: Path | None = None, option: str = "--file") -> list[str]:
    """Returns the lines of a UTF-8 file, or of standard input, without line endings.

    Args:
      file: the file; None for standard input. A closed standard input has no lines.
      option: what gives the file, for messages.
    Raises:
      UserError: the input cannot be read, is not UTF-8, or is larger than `MAX_BYTES`.
    """
    name = "standard input" if file is None else f"{option} {file}"
    try:
        data = _read(file)
        lines = data.decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{name}: should be at most {MAX_BYTES:,} bytes")
    # A line ending at the end of the input does not begin another line.
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def _read(file: Path | None) -> bytes:
    if file is not None:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    return sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin else b""


def is_interactive() -> bool:
    """Returns whether standard input and standard output are terminals."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())


def prompt_loop(hint: str, answer: Callable[[str], None]) -> None:
    """Reads lines with editing and history until end of file, and answers each.

    Args:
      hint: what to type, printed first.
      answer: called with each line; the problems of its `UserError`s are printed.
    """
    with suppress(ImportError):
        # Importing it gives `input` line editing and history.
        importlib.import_module("readline")
    print_message(f"{hint} Press Ctrl-D to quit.")
    while True:
        try:
            line = input("> ")
        except EOFError:
            print()
            return
        try:
            answer(line)
        except UserError as error:
            for problem in error.problems:
                print_message(problem)
