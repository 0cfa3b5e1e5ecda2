"""Reading lines, from a file, a pipe or a terminal, and printing text of models, messages and JSON."""

import importlib
import json
import math
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
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
    finite = [
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
        for record in (content if isinstance(content, list) else [content])
    ]
    shown = finite if isinstance(content, list) else finite[0]
    line = json.dumps(shown, ensure_ascii=False, allow_nan=False)
    # JSON allows these control characters, but a terminal interprets them. Surrogates, which stand for the
    # bytes of a file name that is not UTF-8, cannot be printed.
    line = re.sub(
        "[\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", line
    )
    print(line, flush=True)


# The lines are held in memory.
MAX_BYTES = 100_000_000


def input_lines(file: Path | None = None, option: str = "--file") -> list[str]:
    """Returns the lines of a UTF-8 file, or of standard input, without line endings.

    `option` gives the file, for the message of the `UserError` if it cannot be read or is too large.
    """
    name = "standard input" if file is None else f"{option} {file}"
    try:
        # A closed standard input has no lines.
        given: Any = file.open("rb") if file else nullcontext(sys.stdin and sys.stdin.buffer)
        with given as stream:
            data = stream.read(MAX_BYTES + 1) if stream else b""
        lines = data.decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{name}: should be at most {MAX_BYTES:,} bytes")
    # A line ending at the end of the input does not begin another line.
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def is_interactive() -> bool:
    """Returns whether standard input and standard output are terminals."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())


def prompt_loop(hint: str, answer: Callable[[str], None]) -> None:
    """Prints a hint, reads lines with editing and history until end of file, and answers each.

    The problems of a `UserError` are printed.
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
