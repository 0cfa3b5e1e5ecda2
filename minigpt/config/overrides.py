"""Changes single settings of a configuration before it is checked: `SECTION.KEY=VALUE`."""

import tomllib
from collections.abc import Sequence
from typing import Any

from minigpt.config.problems import nearest
from minigpt.config.schema import SECTIONS, TRANSLATION_SAMPLING, SamplingConfig, selector, variants
from minigpt.config.section import Section
from minigpt.errors import ArgumentProblem


def check_overrides(overrides: object, argument: str = "overrides") -> None:
    """Raises a `TypeError` that names the argument if it is not a sequence of strings."""
    if (
        isinstance(overrides, str)
        or not isinstance(overrides, Sequence)
        or not all(isinstance(override, str) for override in overrides)
    ):
        raise TypeError(
            f"`{argument}` must be a sequence of strings, such as ['training.epochs=1']. "
            f"Received: {overrides!r}"
        )


def apply_overrides(
    sections: dict[str, Any], overrides: Sequence[str], problems: list[str]
) -> set[str]:
    """Changes settings in place.

    An override of `data.source`, `tokenizer.kind` or `model.kind` drops the settings that belonged to
    the previous one; see `select_variant`.

    Args:
      sections: section name → its settings.
      overrides: `"SECTION.KEY=VALUE"` strings; VALUE is TOML, or plain text if it is not valid TOML.
      problems: receives a line for each override that cannot be read.
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
        settings = sections.setdefault(section, {})
        if isinstance(settings, dict):
            settings[key] = value
    return {f"{section}.{key}" for section, key in values}


def select_variant(sections: dict[str, Any], section: str, name: Any) -> None:
    """Selects the variant of a section and drops the settings that belonged to the previous variant.

    A setting belongs to a variant if the other variant does not have it, or has it with a different default
    or different limits. For example, a vocabulary size for words does not suit characters. A change
    between pairs and continuous text also selects the model that suits the source, and drops the settings
    of training and sampling that have no effect with it.

    Args:
      sections: section name → its settings; changed in place.
      section: the section with variants.
      name: the variant, such as "files"; nothing is dropped for an unknown one.
    """
    key = str(selector(section))
    settings = sections.setdefault(section, {})
    if not isinstance(settings, dict):
        return
    classes = variants(section)
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
    select_variant(sections, "model", "encoder_decoder" if is_pairs else "gpt")
    without_effect = {
        "training": {"sequence_length"} if is_pairs else {"label_smoothing"},
        "sampling": SamplingConfig.model_fields.keys() - TRANSLATION_SAMPLING
        if is_pairs
        # Beam search, which suits translations, makes continued texts repetitive.
        else {"translations", "beams", "length_penalty"},
    }
    for section, names in without_effect.items():
        if isinstance(settings := sections.get(section), dict):
            for name in names & settings.keys():
                del settings[name]


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
    # Text that looks like a number is still text if the setting is text.
    if not isinstance(value, str) and _is_text(section, key):
        value = text
    return section, key, value


def _is_text(section: str, key: str) -> bool:
    fields = [v.model_fields[key] for v in variants(section).values() if key in v.model_fields]
    return any(field.annotation in (str, str | None) for field in fields)
