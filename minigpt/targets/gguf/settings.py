"""Sampling settings of portable files: the rows of `config.sampling.SETTINGS`, without pydantic."""

import difflib
import math
import numbers
import operator
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from minigpt.config.sampling import BY_NAME, DISTRIBUTION, SETTINGS, Setting
from minigpt.errors import ArgumentProblem, UserError

_COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    ">=": (operator.ge, "greater than or equal to"),
    ">": (operator.gt, "greater than"),
    "<=": (operator.le, "less than or equal to"),
    "<": (operator.lt, "less than"),
}
# The seed is no attribute of `Settings`: each text has its own.
_OWN = [setting for setting in SETTINGS if setting.role != "training" and setting.name != "seed"]
# Settings of `[sampling]` that do not concern one text.
_WITHOUT_EFFECT = {setting.name for setting in SETTINGS} - {setting.name for setting in _OWN}


class Settings(SimpleNamespace):
    """How a text is continued; the attributes and their meaning are those of `[sampling]`.

    Numbers have the type of their setting: WebAssembly distinguishes integers.

    Raises:
      UserError: a name is unknown, or a value cannot be used.
    """

    def __init__(self, **values: Any) -> None:
        known = [setting.name for setting in _OWN]
        if unknown := [name for name in values if name not in known]:
            raise UserError(
                *(ArgumentProblem(name, values[name], _unknown(name, known)) for name in unknown)
            )
        problems = []
        for setting in _OWN:
            value = values.get(setting.name, setting.default)
            # NumPy's numbers and arrays become those of Python.
            value = value.tolist() if hasattr(value, "tolist") else value
            if found := _problems(setting, value):
                problems += found
                continue
            convert = list if isinstance(value, list | tuple) else setting.type
            setattr(self, setting.name, convert(value))
        if problems:
            raise UserError(*problems)

    @property
    def numbers(self) -> list[float]:
        """The arguments of the engine, in its order: `SAMPLING_PARAMETERS`, without the seed."""
        taken = (setting.name for setting in DISTRIBUTION if "gguf" in setting.formats)
        return [getattr(self, name) for name in taken]


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Returns checked settings; those of `[sampling]` that do not concern one text are left out.

    Raises:
      UserError: a name is unknown, or a value cannot be used.
    """
    return Settings(**{n: value for n, value in values.items() if n not in _WITHOUT_EFFECT})


def engine_problems(values: Mapping[str, Any], has: str) -> list[ArgumentProblem]:
    """Returns a problem for each setting that the engine does not have and that would change a text.

    Args:
      values: setting → value; others have their defaults.
      has: the end of the line: what has it.
    """
    return [
        ArgumentProblem(setting.name, value, f"should be {setting.neutral}: {_lack(setting)}{has}")
        for setting, value in _lacking(values)
    ]


def ignored_settings(values: Mapping[str, Any]) -> list[str]:
    """Returns a line for each setting of `[sampling]` that has an effect, but not in a portable file."""
    return [
        f"sampling.{setting.name} = {value} has no effect: {_lack(setting)}"
        for setting, value in _lacking(values)
    ]


def _lacking(values: Mapping[str, Any]) -> list[tuple[Setting, Any]]:
    given = [(setting, values.get(setting.name, setting.default)) for setting in _OWN]
    return [
        (setting, value)
        for setting, value in given
        if "gguf" not in setting.formats and setting.takes_effect(value)
    ]


def _lack(setting: Setting) -> str:
    name = "beam search" if setting.name == "beams" else setting.name
    return f"a portable file has no {name}"


def _unknown(name: str, known: list[str]) -> str:
    if close := difflib.get_close_matches(name, known, n=1, cutoff=0.5):
        return f"unknown setting; did you mean {close[0]}?"
    return f"unknown setting; should be one of {', '.join(known)}"


def problem_of(name: str, value: Any) -> str | None:
    """Returns what is wrong with the value of a number setting, `seed` included; None if nothing is."""
    setting = BY_NAME[name]
    kind = "integer" if setting.type is int else "number"
    types: Any = numbers.Integral if setting.type is int else numbers.Real
    if isinstance(value, bool) or not isinstance(value, types):
        return f"should be a valid {kind}"
    try:
        if not math.isfinite(value):
            return "should be a finite number"
    except OverflowError:  # An integer that no float can hold.
        return f"should be a valid {kind}"
    for comparison, limit in setting.limits():
        holds, words = _COMPARISONS[comparison]
        if not holds(value, limit):
            return f"should be {words} {limit}"
    return None


def _problems(setting: Setting, values: Any) -> list[ArgumentProblem]:
    name = setting.name
    if setting.type in (int, float):
        problem = problem_of(name, values)
        return [ArgumentProblem(name, values, problem)] if problem else []
    if not isinstance(values, list | tuple):
        return [ArgumentProblem(name, values, "should be a valid list")]
    kind, expected = (str, "string") if setting.type == list[str] else (int, "integer")
    problems = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, kind):
            problems.append(ArgumentProblem(name, value, f"should be a valid {expected}"))
        elif value == "":
            problems.append(ArgumentProblem(name, value, "should have at least 1 character"))
        elif isinstance(value, int) and value < 0:
            problem = "should be greater than or equal to 0"
            problems.append(ArgumentProblem(name, value, problem))
    return problems
