"""What portable files lack of the sampling settings: see `config.sampling`."""

from collections.abc import Mapping
from typing import Any

from minigpt.config.sampling import BY_NAME, SETTINGS, SettingRow
from minigpt.errors import ArgumentProblem


def engine_problems(values: Mapping[str, Any], has: str) -> list[ArgumentProblem]:
    """Returns a problem for each setting that the engine does not have and that would change a text.

    Args:
      values: setting → value; others have their defaults.
      has: the end of the line: what has it.
    """
    given = ((setting, values.get(setting.name, setting.default)) for setting in SETTINGS)
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


def _lack(setting: SettingRow) -> str:
    return f"a portable file has no {'beam search' if setting.name == 'beams' else setting.name}"
