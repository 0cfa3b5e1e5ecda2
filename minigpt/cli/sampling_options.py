"""Sampling options: a run's settings, with the user's changes."""

from typing import Any

from minigpt import config
from minigpt.config import SamplingConfig
from minigpt.errors import UserError


def sampling_config(defaults: SamplingConfig, options: dict[str, Any]) -> SamplingConfig:
    """Returns sampling settings: the values of options, and a run's settings for the others.

    Args:
      defaults: the run's settings.
      options: setting → value, None for the run's. Settings without an option are not read from the run.
    Raises:
      UserError: a value cannot be used.
    """
    chosen = {
        name: getattr(defaults, name) if value is None else value for name, value in options.items()
    }
    return config.sampling_config(**chosen)


def check_options(beams: int, options: dict[str, Any], stream: bool, as_json: bool) -> None:
    """Raises a `UserError` if an option of `sample` has no effect or contradicts another one."""
    problems = []
    if beams > 1:
        problems += [
            f"--{name.replace('_', '-')} {options[name]}: has no effect with --beams {beams}, which "
            "draws no random numbers; omit one of the two"
            for name in ("temperature", "top_k", "top_p", "min_p", "seed")
            if options[name] is not None
        ]
    elif options["length_penalty"] is not None:
        problems.append(
            f"--length-penalty {options['length_penalty']}: has an effect only with --beams 2 or more"
        )
    if stream and beams > 1:
        problems.append(
            f"--stream: cannot be used with --beams {beams}, which finds the best text at the end"
        )
    if stream and as_json:
        problems.append("--stream: cannot be used with --json, which prints whole objects")
    if problems:
        raise UserError(*problems)
