"""Reading lines from a file, from standard input, or from a terminal."""

import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from minigpt.cli.output import print_message
from minigpt.errors import UserError

# The lines are held in memory.
MAX_BYTES = 100_000_000


def read_lines(file: Path | None = None) -> list[str]:
    """Returns the lines of a UTF-8 file, or of standard input, without line endings.

    Args:
      file: the file; None for standard input. A closed standard input has no lines.
    Raises:
      UserError: the input cannot be read, is not UTF-8, or is larger than `MAX_BYTES`.
    """
    name = "standard input" if file is None else f"--file {file}"
    try:
        data = _read(file)
        text = data.decode("utf-8")
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{name}: not valid UTF-8 at byte {error.start} (line {line}): {error.reason}"
        ) from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{name}: should be at most {MAX_BYTES:,} bytes")
    lines = text.removeprefix("\N{BYTE ORDER MARK}").split("\n")
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
