"""The exception for input that cannot be used: a file, a setting, a prompt, a run directory."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class ArgumentProblem(str):
    """A problem with the value of one argument.

    As a string it reads like a message to a Python caller: "run = 'runs/a': is not empty". The command
    line calls `as_option` to name the option instead: "--run runs/a: is not empty".

    Args:
      name: the argument's name.
      value: its value, as given.
      message: what is wrong, and what would be right.
    """

    name: str
    value: object
    message: str

    def __new__(cls, name: str, value: object, message: str) -> "ArgumentProblem":
        shown = str(value) if isinstance(value, Path) else value
        problem = super().__new__(cls, f"{name} = {shown!r}: {message}")
        problem.name, problem.value, problem.message = name, value, message
        return problem

    def __getnewargs__(self) -> tuple[str, object, str]:  # type: ignore[override]
        return self.name, self.value, self.message

    def as_option(self, options: Mapping[str, str]) -> str:
        """Returns the message with the argument's name replaced.

        Args:
          options: argument name → how the command line writes it, such as "--run" or "RUN".
        """
        if self.name not in options:
            return str(self)
        shown = str(self.value) or repr("")
        return f"{options[self.name]} {shown}: {self.message}"


def as_path(name: str, value: object) -> Path:
    """Returns the path that an argument holds.

    Raises:
      TypeError: it is not a path.
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"`{name}` must be a path. Received: {value!r}")
    return Path(value)


class UserError(Exception):
    """Raised for input that cannot be used.

    Each argument is one problem in one line: what is wrong, its value, and what would be right. The command
    line prints the lines on standard error and exits with status 2, without a traceback.
    """

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(p if isinstance(p, str) else str(p) for p in self.args)

    def __str__(self) -> str:
        return "\n".join(self.problems)


@contextmanager
def gathering(problems: list[str]) -> Iterator[None]:
    """Appends the problems of a `UserError` to a list, so that later checks run too."""
    try:
        yield
    except UserError as error:
        problems += error.problems
