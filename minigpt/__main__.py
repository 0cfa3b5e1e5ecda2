"""The program `minigpt`; `python -m minigpt` is the same."""

import contextlib
import io
import os
import sys

from minigpt.interrupts import remember_interrupts, was_answered, was_requested


def main() -> None:
    """Runs a command; Ctrl-C ends it with one line and status 130, at whatever moment it comes."""
    try:
        remember_interrupts()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # Text that a terminal or a file cannot show is no reason to end a training.
                stream.reconfigure(errors="replace")
        from minigpt.cli.commands import run_command

        run_command()
    except (KeyboardInterrupt, Exception) as error:
        # A library that is just being imported may make an ImportError of it.
        if not (isinstance(error, KeyboardInterrupt) or was_requested()):
            raise
        if not was_answered():
            print("minigpt: interrupted; no file was written", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        # Not through Python's own end, which would run what the interrupt left half done.
        os._exit(130)


if __name__ == "__main__":
    main()
