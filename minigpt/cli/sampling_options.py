"""Options of `minigpt sample` and `minigpt translate`: rows of the table of sampling settings."""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from minigpt.config.sampling import SettingRow

# Settings whose option has another name.
_NAMES = {"banned_tokens": "ban"}


def option_names(settings: Sequence[SettingRow]) -> dict[str, str]:
    """Returns the option of each setting: "top_k" → "--top-k"."""
    return {s.name: "--" + _NAMES.get(s.name, s.name).replace("_", "-") for s in settings}


def with_sampling_options(
    settings: Sequence[SettingRow], before: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a command: its `**options` become the options of sampling settings.

    They arrive as setting → value, None for those that are not given.

    Args:
      settings: the settings.
      before: the parameter before which they are listed.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        at = [parameter.name for parameter in own].index(before)
        own[at:at] = map(_parameter, settings)

        def with_options(**given: Any) -> None:
            options = {s.name: given.pop(_NAMES.get(s.name, s.name)) for s in settings}
            function(**given, **options)

        with_options.__name__, with_options.__doc__ = function.__name__, function.__doc__
        with_options.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return with_options

    return decorate


def _parameter(setting: SettingRow) -> inspect.Parameter:
    """Returns the parameter of a command for a setting."""
    described = setting.description[0].upper() + setting.description[1:] + "."
    metavar = None
    if setting.type in (list[str], list[int]):
        described += " Repeatable."
        metavar = "TEXT" if setting.type == list[str] else "ID"
    option = typer.Option(metavar=metavar, help=described)
    return inspect.Parameter(
        _NAMES.get(setting.name, setting.name),
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation=Annotated[setting.type | None, option],
    )
