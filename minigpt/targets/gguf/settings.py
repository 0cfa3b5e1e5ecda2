"""Sampling settings without pydantic: the names, limits and messages of `minigpt.config.SamplingConfig`."""

import difflib
import math
import numbers
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from minigpt.errors import ArgumentProblem, UserError

# Setting → what its values should be: a comparison and a limit.
_LIMITS: dict[str, tuple[tuple[str, float], ...]] = {
    "max_new_tokens": ((">=", 0), ("<=", 1_000_000)),
    "temperature": ((">=", 0),),
    "top_k": ((">=", 0), ("<", 2**31)),
    "top_p": ((">", 0), ("<=", 1)),
    "min_p": ((">=", 0), ("<=", 1)),
    "repetition_penalty": ((">", 0),),
    "beams": ((">=", 1), ("<=", 1000)),
    "seed": ((">=", 0), ("<", 2**31)),
    "length_penalty": (),
}
_COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    ">=": (operator.ge, "greater than or equal to"),
    ">": (operator.gt, "greater than"),
    "<=": (operator.le, "less than or equal to"),
    "<": (operator.lt, "less than"),
}
_INTEGERS = {"max_new_tokens", "top_k", "beams", "seed"}
# The seed is no field of `Settings`: each text has its own.
_NUMBERS = [name for name in _LIMITS if name != "seed"]
# Settings of `[sampling]` that concern training.
_WITHOUT_EFFECT = {"prompts", "seed", "print_every", "translations"}


@dataclass(frozen=True)
class Settings:
    """How a text is continued; the meaning of each setting is that of `[sampling]`.

    Raises:
      UserError: a value is outside its limits.
    """

    max_new_tokens: int = 40
    temperature: float = 1.0
    top_k: int = 10
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    beams: int = 1
    length_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    banned_tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        problems = [
            ArgumentProblem(name, getattr(self, name), problem)
            for name in _NUMBERS
            if (problem := problem_of(name, getattr(self, name)))
        ]
        problems += _list_problems("stop", self.stop, str)
        problems += _list_problems("banned_tokens", self.banned_tokens, int)
        if problems:
            raise UserError(*problems)


def settings_of(values: dict[str, Any]) -> Settings:
    """Returns checked settings.

    Raises:
      UserError: a name is unknown, or a value cannot be used.
    """
    known = [field.name for field in fields(Settings)]
    # NumPy's numbers and arrays become those of Python.
    values = {
        name: value.tolist() if hasattr(value, "tolist") else value
        for name, value in values.items()
        if name not in _WITHOUT_EFFECT
    }
    if unknown := [name for name in values if name not in known]:
        raise UserError(
            *(ArgumentProblem(name, values[name], _unknown(name, known)) for name in unknown)
        )
    checked = Settings(**values)
    # WebAssembly distinguishes integers from other numbers.
    numbers_of: dict[str, Any] = {
        name: (int if name in _INTEGERS else float)(getattr(checked, name)) for name in _NUMBERS
    }
    return replace(checked, **numbers_of)


def _unknown(name: str, known: list[str]) -> str:
    if close := difflib.get_close_matches(name, known, n=1, cutoff=0.5):
        return f"unknown setting; did you mean {close[0]}?"
    return f"unknown setting; should be one of {', '.join(known)}"


def problem_of(name: str, value: Any) -> str | None:
    """Returns what is wrong with the value of a number setting, `seed` included; None if nothing is."""
    kind = "integer" if name in _INTEGERS else "number"
    types: Any = numbers.Integral if name in _INTEGERS else numbers.Real
    if isinstance(value, bool) or not isinstance(value, types):
        return f"should be a valid {kind}"
    try:
        if not math.isfinite(value):
            return "should be a finite number"
    except OverflowError:  # An integer that no float can hold.
        return f"should be a valid {kind}"
    for comparison, limit in _LIMITS[name]:
        holds, words = _COMPARISONS[comparison]
        if not holds(value, limit):
            return f"should be {words} {limit}"
    return None


def _list_problems(name: str, values: Any, kind: type) -> list[ArgumentProblem]:
    if not isinstance(values, list | tuple):
        return [ArgumentProblem(name, values, "should be a valid list")]
    problems = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, kind):
            expected = "string" if kind is str else "integer"
            problems.append(ArgumentProblem(name, value, f"should be a valid {expected}"))
        elif value == "":
            problems.append(ArgumentProblem(name, value, "should have at least 1 character"))
        elif isinstance(value, int) and value < 0:
            problem = "should be greater than or equal to 0"
            problems.append(ArgumentProblem(name, value, problem))
    return problems
