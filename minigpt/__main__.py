"""The program `minigpt`; `python -m minigpt` is the same."""

import sys

from minigpt.interrupts import remember_interrupts, was_answered


def main() -> None:
    """Runs a command; Ctrl-C ends it with one line and status 130, at whatever moment it comes."""
    try:
        remember_interrupts()
        from minigpt.cli import run_command

        run_command()
    except KeyboardInterrupt:
        if not was_answered():
            print("minigpt: interrupted; no file was written", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
