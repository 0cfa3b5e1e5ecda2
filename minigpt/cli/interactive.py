"""Prompts typed on a terminal."""

import importlib
from collections.abc import Callable
from contextlib import suppress

from minigpt.cli.output import print_message
from minigpt.errors import UserError


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
