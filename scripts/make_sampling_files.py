"""Writes the sampling settings for the engine and for the page of a model, from minigpt/config/sampling.py.

    python scripts/make_sampling_files.py

Run this script after the table has changed, then scripts/build_engine.py and scripts/make_settings_page.py;
tests/scripts/test_sampling_files.py fails while a file is out of date.
"""

import json
from pathlib import Path

from minigpt.config.sampling import BY_NAME, DISTRIBUTION, SETTINGS, SettingRow

TARGETS = Path(__file__).resolve().parents[1] / "minigpt" / "targets"
HEADER = TARGETS / "gguf" / "engine" / "sampling_settings.h"
TABLE = TARGETS / "html" / "page" / "sampling_settings.js"

NOTE = "Written by scripts/make_sampling_files.py from minigpt/config/sampling.py."
WORDS = {">=": "at least {}", ">": "more than {}", "<=": "at most {}", "<": "less than {}"}
# Settings of the page whose name has another form.
LABELS = {"max_new_tokens": "Length (tokens)"}
ELEMENTS = {"max_new_tokens": "length"}


def in_words(setting: SettingRow) -> str:
    """Returns the limits of a setting: "more than 0, at most 1"."""
    return ", ".join(WORDS[comparison].format(limit) for comparison, limit in setting.limits())


def allowed(setting: SettingRow) -> str:
    """Returns the allowed values of a setting: "a number above 0 and at most 1"."""
    kind = "an integer" if setting.type is int else "a number"
    most = largest(setting)
    if setting.least is None:
        return f"{kind} above {setting.above}" + ("" if most is None else f" and at most {most:,}")
    if most is None:
        return f"{kind} of at least {setting.least}"
    return f"{kind} from {setting.least} to {most:,}"


def largest(setting: SettingRow) -> float | None:
    """Returns the largest allowed value; None if there is no limit. Only integers have open limits."""
    if setting.below is None:
        return setting.most
    assert setting.type is int, f"{setting.name}: the page has no open upper limit for numbers"
    return setting.below - 1


def header() -> str:
    """Returns the header of the engine: the settings that change a distribution, and the seed."""
    settings = [s for s in DISTRIBUTION if "gguf" in s.formats] + [BY_NAME["seed"]]
    types = {s.name: "int32_t" if s.type is int else "float" for s in settings}
    fields = []
    for setting in settings:
        neutral = "" if setting.neutral is None else f"; {setting.neutral:g}: no effect"
        field = f"    {types[setting.name]} {setting.name};"
        fields.append(f"{field} /* {in_words(setting)}{neutral} */")
    parameters = ", ".join(f"{kind} {name}" for name, kind in types.items())
    neutral_values = ", ".join(f"{setting.neutral or 0:g}" for setting in settings)
    return "\n".join(
        [
            f"/* {NOTE} */",
            "#ifndef MINIGPT_SAMPLING_SETTINGS_H",
            "#define MINIGPT_SAMPLING_SETTINGS_H",
            "",
            "#include <stdint.h>",
            "",
            "/* The host checks the limits. Other values do no harm. */",
            "typedef struct {",
            *fields,
            "} SamplingSettings;",
            "",
            "/* What exported functions take, in this order, and an initializer made of it. */",
            f"#define SAMPLING_PARAMETERS \\\n    {parameters}",
            f"#define SAMPLING_ARGUMENTS \\\n    {{{', '.join(types)}}}",
            f"#define NEUTRAL_SETTINGS {{{neutral_values}}}",
            "",
            "#endif",
            "",
        ]
    )


def row(setting: SettingRow) -> str:
    """Returns the row of a setting in JavaScript."""
    first, *others = setting.name.split("_")
    is_short = others and len(others[-1]) == 1
    label = "-".join([first, *others]) if is_short else " ".join([first, *others])
    fields = {
        "name": setting.name,
        "option": first + "".join(other.capitalize() for other in others),
        "element": ELEMENTS.get(setting.name, setting.name.replace("_", "-")),
        "label": LABELS.get(setting.name, label.capitalize()),
        "description": setting.description[0].upper() + setting.description[1:] + ".",
        "allowed": allowed(setting),
        "isInteger": setting.type is int,
        "isSampling": setting.role == "distribution",
        "default": setting.default,
        "step": 1 if setting.type is int else 0.05 if setting.most == 1 else 0.1,
        # The limits themselves are not allowed if they are open.
        "least": setting.above if setting.least is None else setting.least,
        "isLeastOpen": setting.least is None,
        "most": largest(setting),
    }
    return "".join(f"    {name}: {json.dumps(value)},\n" for name, value in fields.items())


def table() -> str:
    """Returns the table of the page: the settings with a number that the engine has."""
    shown = [s for s in SETTINGS if "gguf" in s.formats and s.type in (int, float)]
    rows = "".join(f"  {{\n{row(setting)}  }},\n" for setting in shown)
    return f"/* {NOTE} */\n\nconst SAMPLING_SETTINGS = [\n{rows}];\n"


if __name__ == "__main__":
    HEADER.write_text(header(), encoding="utf-8")
    TABLE.write_text(table(), encoding="utf-8")
