"""Reads a configuration from a TOML file or a dictionary, with overrides of single settings, and writes it.

A TOML file has one table for each section (`[data]`, `[tokenizer]`, `[model]`, `[training]`,
`[sampling]`). A setting that the file leaves out has its default. All problems of a file and its overrides
are reported together, as one `UserError`; settings that do not suit each other, once each is valid.
"""

import json
import reprlib
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from minigpt.config.sampling import SETTINGS
from minigpt.config.schema import SECTIONS, Config, selector, variants
from minigpt.config.section import UNSET, Section
from minigpt.errors import ArgumentProblem, UserError, nearest
from minigpt.storage.files import bundled, read_file

# The number of the schema, which a later version may change.
FORMAT = 2
# A limit for files that are not configurations: they are not read into memory.
MAX_FILE_BYTES = 1_000_000
Overrides = Sequence[str] | Mapping[str, Any]


def shipped_configs() -> dict[str, Path]:
    """Returns the name and path of every shipped configuration, `default` first."""
    found = bundled("configs").glob("*.toml")
    paths = sorted(found, key=lambda path: (path.stem != "default", path.stem))
    return {path.stem: path for path in paths}


def load_config(
    source: str | Path | Mapping[str, Any] | None = None,
    overrides: Overrides = (),
    text: Sequence[str | Path] = (),
) -> Config:
    """Reads and checks a configuration.

    What it leaves out is chosen later, by `config.complete.complete`, for sources other than the bundled
    stories.

    Args:
      source: a path, the name of a shipped configuration, a nested dictionary such as `config_record`
        returns, or None for the default configuration.
      overrides: `"SECTION.KEY=VALUE"` strings; VALUE is TOML, or plain text if it is not valid TOML.
        "none" unsets a setting that may be unset. Or a dictionary, such as
        `{"training.epochs": 9}` or `{"training": {"epochs": 9}}`.
      text: paths for `data.paths`. They select `data.source = "files"`, unless the source already
        takes paths.
    Raises:
      UserError: with one line for each problem.
      TypeError: `overrides` is not a sequence of strings or a dictionary.
    """
    overrides = as_strings(overrides)
    check_strings("text", text)
    origin, raw = _read(source)
    sections: dict[str, Any] = {name: {} for name in SECTIONS} | dict(raw)
    number = sections.pop("format", FORMAT)
    if number not in range(1, FORMAT + 1):
        problem = f"should be a number from 1 to {FORMAT}; a later version may have written it"
        raise UserError(f"{origin}format = {number!r}: {problem}")
    for name in SECTIONS:
        if not isinstance(sections[name], Mapping):
            value = _SHORT.repr(sections[name])
            raise UserError(f"{origin}{name} = {value}: should be a table of settings")
        sections[name] = dict(sections[name])
    if text:
        with_paths = {name for name, v in variants("data").items() if "paths" in v.model_fields}
        if sections["data"].get("source") not in with_paths:
            select_variant(sections, "data", "files")
        sections["data"]["paths"] = list(map(str, text))
    problems: list[str] = []
    overridden = _apply_overrides(sections, overrides, problems)
    try:
        config = Config.model_validate(sections)
    except ValidationError as error:
        problems += [problem_of(details, origin, overridden) for details in error.errors()]
    if problems:
        raise UserError(*problems)
    return config


def load_new_config(
    source: str | Path | Mapping[str, Any] | None,
    overrides: Overrides,
    text: Sequence[str | Path],
    base: str | Path | None = None,
) -> Config:
    """Reads the configuration of a new run, as `load_config`.

    Without a source, it is the default configuration, unless there is a text or a run to start from. A text
    alone is learned from the base of the package if it helps.
    """
    overrides = as_strings(overrides)
    is_given = any(override.startswith("training.init_from") for override in overrides)
    if base is not None:
        if is_given:
            problem = "training.init_from is set, too; should be given once"
            raise UserError(ArgumentProblem("base", base, problem))
        overrides, is_given = [*overrides, f"training.init_from={json.dumps(str(base))}"], True
    elif text and source is None and not is_given:
        overrides = [*overrides, "training.init_from=auto"]
    if source is None and not text and (not is_given or str(base) in (UNSET, "auto")):
        source = "default"
    config = load_config(source, overrides, text)
    if config.data.source == "stories" and source is None and base not in (None, "auto"):
        problem = "needs `text` (--text); the bundled stories are learned from nothing"
        raise UserError(ArgumentProblem("base", base, problem))
    return config


def as_strings(overrides: Overrides, minutes: float | None = None) -> Sequence[str]:
    """Returns overrides as `"SECTION.KEY=VALUE"` strings, with a time limit unless it is None.

    Raises:
      TypeError: they are neither a sequence of strings nor a dictionary.
    """
    if isinstance(overrides, Mapping):
        values: dict[str, Any] = {}
        for key, value in overrides.items():
            nested = value if isinstance(value, Mapping) else {"": value}
            values |= {f"{key}.{name}".rstrip("."): each for name, each in nested.items()}
        overrides = [
            f"{key}={json.dumps(UNSET if value is None else value, ensure_ascii=False, default=str)}"
            for key, value in values.items()
        ]
    check_strings("overrides", overrides)
    return overrides if minutes is None else [*overrides, f"training.max_minutes={minutes}"]


def _read(source: str | Path | Mapping[str, Any] | None) -> tuple[str, Mapping[str, Any]]:
    """Returns the beginning of messages, and the content."""
    if source is None or isinstance(source, Mapping):
        return "", source or {}
    path = shipped_configs().get(str(source), Path(source))
    try:
        return f"{path}: ", tomllib.loads(read_file(path, MAX_FILE_BYTES).decode("utf-8"))
    # RecursionError: deeply nested brackets.
    except (ValueError, RecursionError) as error:
        problem = f"is not a configuration; to learn a text: text={str(source)!r} or --text"
        problem = f"not valid TOML: {error}" if path.suffix == ".toml" else problem
        raise UserError(f"{path}: {problem}") from None
    except OSError as error:
        names = ", ".join(shipped_configs())
        message = f"{error.strerror or error}; should be a TOML file or one of: {names}"
        raise UserError(ArgumentProblem("config", source, message)) from None


def config_record(config: Config) -> dict[str, Any]:
    """Returns every setting and the format number as values that TOML and JSON can hold.

    Unset values are "none". `load_config` reads the record back to an equal configuration.
    """
    values = config.model_copy(update={"model": config.model.resolved()}).model_dump()
    return {"format": FORMAT} | {
        section: {key: UNSET if value is None else value for key, value in values[section].items()}
        for section in SECTIONS
    }


def dump_config(config: Config) -> str:
    """Returns a configuration as TOML that `load_config` reads back to an equal one."""
    return tomli_w.dumps(config_record(config))


def check_strings(name: str, value: Any) -> None:
    """Raises a `TypeError` if the argument `name` is not a sequence of strings or paths."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not (is_list and all(isinstance(each, str | Path) for each in value)):
        raise TypeError(f"`{name}` must be a list of strings. Received: {value!r}")


def _apply_overrides(
    sections: dict[str, Any], overrides: Sequence[str], problems: list[str]
) -> set[str]:
    """Changes settings in place; an override that cannot be read is a line in `problems`.

    An override of `data.source`, `tokenizer.kind` or `model.kind` drops the settings that belonged to
    the previous one; see `select_variant`.

    Returns:
      The names of the settings that were changed, such as "training.epochs".
    """
    values: dict[tuple[str, str], Any] = {}
    for override in overrides:
        try:
            section, key, value = _parse(override)
        except ValueError as error:
            problems.append(ArgumentProblem("overrides", override, str(error)))
        else:
            values[section, key] = value
    for (section, key), value in values.items():
        if key == selector(section):
            select_variant(sections, section, value)
    for (section, key), value in values.items():
        sections[section][key] = value
    return {f"{section}.{key}" for section, key in values}


def select_variant(sections: dict[str, Any], section: str, name: Any) -> None:
    """Selects the variant of a section, in place, and drops the settings that belonged to the previous one.

    A setting belongs to a variant if the other variant does not have it, or has it with a different default
    or different limits. For example, a vocabulary size for words does not suit characters. A change
    between pairs and continuous text also selects the model that suits the source, and drops the settings
    of training and sampling that have no effect with it.
    """
    key, settings, classes = str(selector(section)), sections[section], variants(section)
    former_name = settings.get(key, next(iter(classes)))
    former, new = (classes.get(n) if isinstance(n, str) else None for n in (former_name, name))
    if former and new and former is not new:
        for setting in former.model_fields:
            if setting != key and _definition(former, setting) != _definition(new, setting):
                settings.pop(setting, None)
        if section == "data" and "pairs" in (former_name, name):
            _follow_source(sections, is_pairs=name == "pairs")
    settings[key] = name


def _follow_source(sections: dict[str, Any], is_pairs: bool) -> None:
    """Changes the other sections from continuous text to pairs, or from pairs to continuous text."""
    kind = "encoder_decoder" if is_pairs else "gpt"
    select_variant(sections, "model", kind)
    without_effect = {
        "training": {"sequence_length" if is_pairs else "label_smoothing"},
        "sampling": {s.name for s in SETTINGS if kind not in s.models},
    }
    for section, names in without_effect.items():
        for name in names & sections[section].keys():
            del sections[section][name]


def _definition(variant: type[Section], setting: str) -> Any:
    field = variant.model_fields.get(setting)
    return field and (field.annotation, field.default, field.metadata)


def _parse(override: str) -> tuple[str, str, Any]:
    name, equals, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and key):
        raise ValueError("should be SECTION.KEY=VALUE, such as training.epochs=3")
    if section not in SECTIONS:
        raise ValueError(f"unknown section {section!r}{nearest(section, SECTIONS)}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return section, key, text
    fields = (v.model_fields.get(key) for v in variants(section).values())
    is_text = any(field and field.annotation in (str, str | None) for field in fields)
    # Text that looks like a number is still text if the setting is text.
    return section, key, value if isinstance(value, str) or not is_text else text


# Values come from the user and may be of any length.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlist = _SHORT.maxdict = 20


def problem_of(details: Any, origin: str, overridden: Collection[str]) -> str:
    """Returns the line for one of `ValidationError.errors()`.

    Args:
      origin: the beginning of the line: the file's path and a colon, or nothing.
      overridden: names of the settings that came from overrides, such as "training.epochs".
    """
    path, value, kind = list(details["loc"]), details["input"], details["type"]
    section, variant = str(path[0]), None
    if section in SECTIONS and len(variants(section)) > 1 and len(path) > 1:
        # In the location of an error in a union, the name of the variant follows the section.
        variant = path.pop(1)
    name = ".".join(map(str, path[:2]))
    message = details["msg"].removeprefix("Input ").removeprefix("List ")
    if kind == "combination":
        name, value = f"{section}.{details['ctx']['setting']}", details["ctx"]["value"]
    elif kind == "list_type":
        message += f", such as [{_SHORT.repr(value)}]"
    elif kind == "union_tag_invalid":
        key = selector(section)
        name, value = f"{section}.{key}", value[key]
        message = f"should be one of {details['ctx']['expected_tags']}"
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
        return ArgumentProblem("overrides", setting, message)
    return f"{origin}{setting}: {message}"
