"""The exception for input that cannot be used: a file, a setting, a prompt, a run directory."""

import difflib
import errno
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path

_PACKAGE = Path(__file__).parent
# The scratch folders of minigpt/storage/atomic.py, with what leads to them.
_SCRATCH = re.compile(r"\S*/\.minigpt-\w+\.tmp/")


class ArgumentProblem(str):
    """A problem with the value of one argument: what is wrong, and what would be right.

    As a string it reads like a message to a Python caller: "run = 'runs/a': is not empty". The command
    line calls `as_option` to name the option instead: "--run runs/a: is not empty".
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
        """Returns the message with the option or "RUN" that the command line has for the argument."""
        if self.name not in options:
            return str(self)
        shown = str(self.value) or repr("")
        return f"{options[self.name]} {shown}: {self.message}"


def as_path(name: str, value: object) -> Path:
    """Returns the path that an argument holds; a TypeError if it is none."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"`{name}` must be a path. Received: {value!r}")
    return Path(value)


def as_integer(name: str, value: object, least: int | None = None) -> int:
    """Returns the integer that an argument holds; a TypeError if it is none, a ValueError below `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"`{name}` must be an integer. Received: {value!r}")
    if least is not None and value < least:
        raise ValueError(f"`{name}` must be at least {least}. Received: {value}")
    return int(value)


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


# Arguments of Python that stand for a setting.
_SETTINGS = {"minutes": "training.max_minutes", "base": "training.init_from"}


@contextmanager
def naming_arguments(**given: object) -> Iterator[None]:
    """Names the arguments that are given, instead of their settings, in the problems of a `UserError`."""
    try:
        yield
    except UserError as error:
        raise UserError(*(_named(problem, given) for problem in error.problems)) from None


def _named(problem: str, given: Mapping[str, object]) -> str:
    for name in (name for name, value in given.items() if value is not None):
        setting = _SETTINGS[name]
        if not isinstance(problem, ArgumentProblem):
            problem = problem.replace(f"{setting} = ", f"{name} = ")
        elif setting in (problem.name, str(problem.value).partition(" = ")[0]):
            problem = ArgumentProblem(name, given[name], problem.message)
    return problem


def nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Returns "; did you mean ...?" or, if nothing is similar, the known names."""
    known = list(known)
    if close := difflib.get_close_matches(name, known, n=1, cutoff=0.5):
        return f"; did you mean {prefix}{close[0]}?"
    return f"; should be one of {', '.join(known)}"


def write_problem(error: Exception) -> str:
    """Returns in one line why something could not be written: the message of the system, without paths.

    TensorFlow and h5py put names of unfinished files around it, and NumPy leaves it out.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)
    for number in errno.errorcode:
        if (message := os.strerror(number)) in text:
            return message
    if re.fullmatch(r"\d+ requested and \d+ written", text):
        return "only a part could be written; is the disk full?"
    return _SCRATCH.sub("", next(iter(text.splitlines()), "")) or type(error).__name__


def failure(error: Exception) -> str:
    """Returns in one line why an optional step failed.

    An error that is neither the user's nor the system's is named with its place in minigpt.
    """
    if isinstance(error, UserError):
        return " ".join("; ".join(error.problems).splitlines())
    if isinstance(error, OSError) or type(error).__module__.startswith("tensorflow"):
        return write_problem(error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    place = "".join(f" ({Path(f.filename).name}, line {f.lineno})" for f in own[-1:])
    return f"{type(error).__name__}: {write_problem(error)}{place}"
