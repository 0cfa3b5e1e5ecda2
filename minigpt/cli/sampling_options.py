"""Sampling options: a run's settings, with the user's changes."""

from collections.abc import Mapping
from typing import Any

from minigpt.errors import ArgumentProblem, UserError
from minigpt.targets.gguf.settings import Settings, problem_of, settings_of


def sampling_settings(defaults: Mapping[str, Any], options: Mapping[str, Any]) -> Settings:
    """Returns sampling settings: the values of options, and a model's settings for the others.

    Args:
      defaults: the model's settings.
      options: setting → value, None for the model's. Settings without an option are not read.
    Raises:
      UserError: a value, or the seed, cannot be used.
    """
    chosen = _chosen(defaults, options)
    problems = []
    if "seed" in chosen and (problem := problem_of("seed", chosen["seed"])):
        problems.append(ArgumentProblem("seed", chosen["seed"], problem))
    try:
        settings = settings_of(chosen)
    except UserError as error:
        raise UserError(*error.problems, *problems) from None
    if problems:
        raise UserError(*problems)
    return settings


def chosen_seed(defaults: Mapping[str, Any], options: Mapping[str, Any]) -> int:
    """Returns the seed: the option, or the model's setting."""
    seed: int = _chosen(defaults, options)["seed"]
    return seed


def _chosen(defaults: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: defaults.get(name) if value is None else value for name, value in options.items()}


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
