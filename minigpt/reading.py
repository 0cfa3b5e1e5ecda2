"""Lines that a user hands in: a file, or standard input."""

import sys
from pathlib import Path

from minigpt.errors import UserError


def read_lines(file: Path | None) -> list[str]:
    """The lines of a UTF-8 file, or of standard input, without their ends.

    Raises:
      UserError: it cannot be read, or is not UTF-8.
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
    # What stands behind the last line's end is no line.
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
