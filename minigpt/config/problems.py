"""Problems with a configuration: one line for each."""

import difflib
import reprlib
from collections.abc import Collection, Iterable
from typing import Any

from minigpt.config.schema import SECTIONS, selector, variants
from minigpt.errors import ArgumentProblem

# Values come from the user and may be of any length.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlist = _SHORT.maxdict = 20


class OverrideProblem(ArgumentProblem):
    """A problem with a setting that came from `overrides`.

    As a string it names the setting: "training.epochs = 0: should be ...". The command line adds its
    option.
    """

    def __new__(cls, setting: str, message: str) -> "OverrideProblem":
        problem = str.__new__(cls, f"{setting}: {message}")
        problem.name, problem.value, problem.message = "overrides", setting, message
        return problem


def problem_of(details: Any, origin: str, overridden: Collection[str]) -> str:
    """Returns the line for one of the errors of a pydantic `ValidationError`.

    Args:
      details: one of `ValidationError.errors()`.
      origin: the beginning of the line: the file's path and a colon, or nothing.
      overridden: names of the settings that came from overrides, such as "training.epochs".
    """
    path, value, kind = list(details["loc"]), details["input"], details["type"]
    section, variant = str(path[0]), None
    if section in SECTIONS and len(variants(section)) > 1 and len(path) > 1:
        # In the location of an error in a union, the name of the variant follows the section.
        variant = path.pop(1)
    name = ".".join(map(str, path[:2]))
    message = details["msg"].removeprefix("Value error, ").removeprefix("Input ")
    message = message.replace("valid dictionary or instance of", "table of settings like")
    if kind == "combination":
        name, value = details["ctx"]["setting"], details["ctx"]["value"]
    elif kind == "union_tag_invalid":
        key = selector(section)
        name, value = f"{section}.{key}", value[key]
        message = f"should be one of {details['ctx']['expected_tags']}"
    elif kind == "union_tag_not_found":
        message = "should be a table of settings"
    elif kind == "extra_forbidden":
        if len(path) == 1:
            return f"{origin}unknown section [{name}]{nearest(name, SECTIONS)}"
        fields = {name: list(cls.model_fields) for name, cls in variants(section).items()}
        if owners := [repr(name) for name in fields if path[1] in fields[name]]:
            message = (
                f"belongs to {section}.{selector(section)} = {' or '.join(owners)}, not {variant!r}"
            )
        else:
            message = "unknown setting" + nearest(str(path[1]), fields[variant], f"{section}.")
    setting = f"{name} = {_SHORT.repr(value)}"
    if name in overridden:
        return OverrideProblem(setting, message)
    return f"{origin}{setting}: {message}"


def nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Returns "; did you mean ...?" or, if nothing is similar, the known names."""
    known = list(known)
    if close := difflib.get_close_matches(name, known, n=1, cutoff=0.5):
        return f"; did you mean {prefix}{close[0]}?"
    return f"; should be one of {', '.join(known)}"
