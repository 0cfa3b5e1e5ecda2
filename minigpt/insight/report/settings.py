"""The settings of a run, as the report shows them, and the environment that wrote the report."""

import functools
import json
import os
import platform
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

import minigpt
from minigpt.config.model import TransformerConfig
from minigpt.config.schema import SECTIONS, STORIES_DEFAULTS, selector, variants
from minigpt.config.section import UNSET, Section
from minigpt.runs.records import mapping, text
from minigpt.storage.files import read_file

_MAX_FILE_BYTES = 1_000_000
_VALUE_CHARACTERS = 1000
_MOST_SETTINGS = 300
# A distribution of TensorFlow has one of these names.
_TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly")


class RunSettings(NamedTuple):
    """A config.toml.

    Attributes:
      sections: its sections as they are.
      rows: {"name": "SECTION.KEY", "value", "differs"} for every setting. `differs` says whether the value
        differs from the default; None if that is not known. Folders are left out of paths, because a
        report may be given to somebody else.
    """

    sections: dict[str, dict[str, Any]]
    rows: list[dict[str, Any]]


def read_settings(config_file: Path) -> RunSettings:
    """Reads the settings of a run; none if the file is missing or damaged."""
    try:
        return _settings(read_file(config_file, _MAX_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return RunSettings({}, [])


# The report is written after every epoch, with the same configuration.
@functools.lru_cache(maxsize=4)
def _settings(content: bytes) -> RunSettings:
    values = tomllib.loads(content.decode())
    sections = {section: mapping(values.get(section)) for section in SECTIONS}
    names = [(section, key) for section, settings in sections.items() for key in settings]
    return RunSettings(sections, [_row(sections, *name) for name in names[:_MOST_SETTINGS]])


def _row(sections: dict[str, dict[str, Any]], section: str, key: str) -> dict[str, Any]:
    values = sections[section]
    value = values[key]
    shown = _without_folders(value) if key in ("paths", "init_from") else value
    # Each setting is compared by checking its section: one with thousands of settings is no configuration.
    differs = _differs(sections, section, key) if len(values) <= _MOST_SETTINGS else None
    return {
        "name": text(f"{section}.{key}", 200),
        # TOML has dates, which JSON has not.
        "value": text(json.dumps(shown, ensure_ascii=False, default=str), _VALUE_CHARACTERS),
        "differs": differs,
    }


def _without_folders(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_folders(item) for item in value]
    return value if not isinstance(value, str) or "://" in value else Path(value).name or value


def _differs(sections: dict[str, dict[str, Any]], section: str, key: str) -> bool | None:
    values, choice, kinds = sections[section], selector(section), variants(section)
    is_stories = sections["data"].get("source", "stories") == "stories"
    defaults = STORIES_DEFAULTS.get(section, {}) if is_stories else {}
    try:
        if key == choice:
            return bool(values[key] != _default_choice(section))
        kind = kinds[values.get(choice)] if choice else kinds[None]
        if key in defaults:
            return bool(values[key] != defaults[key])
        rest = {name: value for name, value in values.items() if name != key}
        default = _resolved(kind, rest, key) if _is_valid(kind, rest) else _Required
        if default is _Required and not _is_valid(kind, values):
            return None
        return bool(default != (None if values[key] == UNSET else values[key]))
    except (KeyError, TypeError, AttributeError):
        return None


class _Required:
    """The default of a setting that cannot be left out."""


def _is_valid(kind: type[Section], values: dict[str, Any]) -> bool:
    try:
        kind.model_validate(values)
    except ValidationError:
        return False
    return True


def _default_choice(section: str) -> str:
    return {"data": "stories", "tokenizer": "byte_pair", "model": "gpt"}[section]


def _resolved(kind: type[Section], values: dict[str, Any], key: str) -> Any:
    """Returns the value that a setting has when it is left out."""
    section = kind.model_validate(values)
    resolved = section.resolved() if isinstance(section, TransformerConfig) else section
    return getattr(resolved, key)


def environment(device: str | None) -> list[tuple[str, str]]:
    """Returns names and values: the programs that wrote the report, and the device used for training."""
    return [("Device of the training", device or "not recorded"), *_versions()]


@functools.cache
def _versions() -> list[tuple[str, str]]:
    machine = f"{platform.uname()[0]} on {platform.machine()}, {os.cpu_count()} processors"
    return [
        ("Report written by", f"minigpt {minigpt.__version__}"),
        ("Report written on", machine),
        ("Python", platform.python_version()),
        ("TensorFlow", _version(*_TENSORFLOW)),
        ("Keras", _version("keras")),
    ]


def _version(*names: str) -> str:
    """Returns the version of an installed distribution, without importing it."""
    for name in names:
        module = sys.modules.get(name)
        try:
            return str(getattr(module, "__version__", None) or metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
    return "not installed"
