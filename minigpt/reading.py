"""Text that a user hands in: a prompt, a file, standard input."""

import re
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


def said_of_unknown(name: str, count: int) -> str:
    """The line about a text of which a model cannot read all."""
    return f"{name}: {count} of its tokens are unknown to the tokenizer and read as [UNK]"


def check_prompt(prompt: str) -> None:
    """Raises a `UserError` for a prompt that no encoding of Unicode can hold."""
    # Bytes on a command line that are not UTF-8 arrive as halves of surrogate pairs.
    half = re.search("[\ud800-\udfff]", prompt)
    if half:
        raise UserError(
            f"prompt {prompt!r}: not valid Unicode at character {half.start()} (half of a surrogate "
            "pair, or a byte that is not UTF-8); should be UTF-8"
        )
