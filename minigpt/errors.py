"""The one exception for what a user gave and cannot be used."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Something a user gave is wrong: a file, a setting, a prompt, a run.

    Every argument is one problem in one line: the thing, its value, what would be right. The command
    line prints the lines on standard error and ends with status 2; no traceback, because there is no
    bug of ours to look for.
    """

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(str(argument) for argument in self.args)

    def __str__(self) -> str:
        return "\n".join(self.problems)


@contextmanager
def gathering(problems: list[str]) -> Iterator[None]:
    """Adds the problems of a `UserError` to a list instead, so that what follows is checked too."""
    try:
        yield
    except UserError as error:
        problems += error.problems
