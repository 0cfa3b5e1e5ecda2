"""Reading lines from a file or from standard input."""

import sys
from pathlib import Path

from minigpt.errors import UserError


def read_lines(file: Path | None) -> list[str]:
    """Returns the lines of a UTF-8 file, or of standard input, without line endings.

    Args:
      file: the file; None for standard input.
    Raises:
      UserError: the input cannot be read or is not UTF-8.
    """
    name = "standard input" if file is None else f"--file {file}"
    try:
        data = sys.stdin.buffer.read() if file is None else file.read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{name}: not valid UTF-8 at byte {error.start} (line {line}): {error.reason}"
        ) from None
    lines = text.removeprefix("\N{BYTE ORDER MARK}").split("\n")
    # A line ending at the end of the input does not begin another line.
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
