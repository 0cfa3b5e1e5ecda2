"""Sampling settings of portable files: the rows of `config.sampling.SETTINGS`, without pydantic."""

import numbers
import operator
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from minigpt.config.sampling import BY_NAME, DISTRIBUTION, SETTINGS, Setting
from minigpt.errors import ArgumentProblem, UserError, nearest

_COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    ">=": (operator.ge, "greater than or equal to"),
    ">": (operator.gt, "greater than"),
    "<=": (operator.le, "less than or equal to"),
    "<": (operator.lt, "less than"),
}
_KINDS: dict[Any, tuple[Any, str]] = {
    int: (numbers.Integral, "integer"),
    float: (numbers.Real, "number"),
    str: (str, "string"),
}
# The settings that concern one text.
_KNOWN = [setting for setting in SETTINGS if setting.role != "training"]
_WITHOUT_EFFECT = {setting.name for setting in SETTINGS if setting not in _KNOWN}


class Settings(SimpleNamespace):
    """How a text is continued; the attributes and their meaning are those of `[sampling]`.

    Numbers have the type of their setting: WebAssembly distinguishes integers. A seed is checked, but is no
    attribute: each text has its own.

    Raises:
      UserError: a name is unknown, or a value cannot be used.
    """

    def __init__(self, **values: Any) -> None:
        known = [setting.name for setting in _KNOWN]
        found = {
            name: f"unknown setting{nearest(name, known)}" for name in values.keys() - {*known}
        }
        for setting in _KNOWN:
            value = values.get(setting.name, setting.default)
            # NumPy's numbers and arrays become those of Python.
            value = value.tolist() if hasattr(value, "tolist") else value
            if problem := _problem(setting, value):
                found[setting.name] = problem
            elif setting.name != "seed":
                convert = list if isinstance(value, list | tuple) else setting.type
                setattr(self, setting.name, convert(value))
        if found:
            raise UserError(
                *(ArgumentProblem(n, values[n], problem) for n, problem in found.items())
            )

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
    given = ((setting, values.get(setting.name, setting.default)) for setting in _KNOWN)
    return [
        ArgumentProblem(setting.name, value, f"should be {setting.neutral}: {_lack(setting)}{has}")
        for setting, value in given
        if "gguf" not in setting.formats and setting.takes_effect(value)
    ]


def ignored_settings(values: Mapping[str, Any]) -> list[str]:
    """Returns a line for each setting of `[sampling]` that has an effect, but not in a portable file."""
    return [
        f"sampling.{found.name} = {found.value} has no effect: {_lack(BY_NAME[found.name])}"
        for found in engine_problems(values, "")
    ]


def _lack(setting: Setting) -> str:
    return f"a portable file has no {'beam search' if setting.name == 'beams' else setting.name}"


def _problem(setting: Setting, value: Any) -> str | None:
    """Returns what is wrong with a value; the limits of a string are those of its length."""
    kind, elements = setting.type, [value]
    if kind not in _KINDS:
        (kind,) = kind.__args__
        if not isinstance(value, list | tuple):
            return "should be a valid list"
        elements = list(value)
    types, name = _KINDS[kind]
    for element in elements:
        if isinstance(element, bool) or not isinstance(element, types):
            return f"should be a valid {name}"
        size: Any = len(element) if isinstance(element, str) else element
        # No float can hold a larger integer.
        if not (-1e308 < size < 1e308):
            return "should be a finite number"
        for comparison, limit in setting.limits():
            holds, words = _COMPARISONS[comparison]
            if not holds(size, limit):
                return f"should be {words} {limit}{' characters' if kind is str else ''}"
    return None
