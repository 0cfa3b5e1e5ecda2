"""Settings as the report shows them, and the environment that wrote it."""

import functools
import json
import os
import platform
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import minigpt
from minigpt.config.model import TransformerConfig
from minigpt.config.schema import SECTIONS, STORIES_DEFAULTS, selector, variants
from minigpt.config.section import UNSET, Section
from minigpt.pages.records import mapping, text
from minigpt.storage.files import read_file

_MAX_FILE_BYTES = 1_000_000
_VALUE_CHARACTERS = 1000
_MOST_SETTINGS = 500
# A distribution of TensorFlow has one of these names.
_TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly")


def read_settings(config_file: Path) -> dict[str, dict[str, Any]]:
    """Returns the sections of a config.toml as they are; {} if it is missing or damaged."""
    try:
        content = tomllib.loads(read_file(config_file, _MAX_FILE_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return {}
    return {section: mapping(content.get(section)) for section in SECTIONS}


def settings_rows(settings: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns {"name": "SECTION.KEY", "value", "differs"} for every setting.

    `differs` says whether the value is another one than without the setting; None if that is not known.
    Folders are left out of paths: a report may be given to somebody else.
    """
    source = mapping(settings.get("data")).get("source", "stories")
    rows = []
    for section, values in settings.items():
        for key, value in values.items():
            shown = _without_folders(value) if key in ("paths", "init_from") else value
            rows.append(
                {
                    "name": text(f"{section}.{key}", 200),
                    "value": text(_shown(shown), _VALUE_CHARACTERS),
                    "differs": _differs(section, values, key, source),
                }
            )
    return rows[:_MOST_SETTINGS]


def _shown(value: Any) -> str:
    # TOML has dates, which JSON has not.
    return json.dumps(value, ensure_ascii=False, default=str)


def _without_folders(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_folders(item) for item in value]
    return value if not isinstance(value, str) or "://" in value else Path(value).name or value


def _differs(section: str, values: dict[str, Any], key: str, source: Any) -> bool | None:
    choice = selector(section)
    kinds = variants(section)
    defaults = STORIES_DEFAULTS.get(section, {}) if source == "stories" else {}
    try:
        if key == choice:
            return bool(values[key] != _default_choice(section))
        kind = kinds[values.get(choice)] if choice else kinds[None]
        if key in defaults:
            return bool(values[key] != defaults[key])
        if key in kind.model_fields and kind.model_fields[key].is_required():
            return True
        rest = {name: value for name, value in values.items() if name != key}
        return _resolved(kind, rest, key) != (None if values[key] == UNSET else values[key])
    except (KeyError, TypeError, AttributeError, ValueError, ValidationError):
        return None


def _default_choice(section: str) -> str:
    return {"data": "stories", "tokenizer": "byte_pair", "model": "gpt"}[section]


def _resolved(kind: type[Section], values: dict[str, Any], key: str) -> Any:
    """Returns the value that a setting has when it is left out."""
    section = kind.model_validate(values)
    resolved = section.resolved() if isinstance(section, TransformerConfig) else section
    return getattr(resolved, key)


def environment(device: str | None) -> list[tuple[str, str]]:
    """Returns names and values: what the report was written with, and the device of the training."""
    return [("Device of the training", device or "not recorded"), *_versions()]


@functools.cache
def _versions() -> list[tuple[str, str]]:
    system = f"{platform.system()} on {platform.machine()}, {os.cpu_count()} processors"
    return [
        ("Report written by", f"minigpt {minigpt.__version__}"),
        ("Report written on", system),
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
