"""Reads a configuration from a TOML file or a dictionary, and writes it.

A TOML file has one table for each section (`[data]`, `[tokenizer]`, `[model]`, `[training]`,
`[sampling]`). A setting that the file leaves out has its default. All problems of a file and its overrides
are reported together, as one `UserError`.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from minigpt.config.overrides import apply_overrides, check_overrides, select_variant
from minigpt.config.problems import nearest, problem_of
from minigpt.config.schema import SECTIONS, Config, SamplingConfig, variants
from minigpt.config.section import UNSET
from minigpt.errors import ArgumentProblem, UserError
from minigpt.storage.files import read_file

# The number of the schema, which a later version may change.
FORMAT = 2
# A limit for files that are not configurations: they are not read into memory.
MAX_FILE_BYTES = 1_000_000


def shipped_configs() -> dict[str, Path]:
    """Returns the name and path of every shipped configuration, `default` first."""
    package = Path(__file__).resolve().parents[1]
    # In an installed wheel they are inside the package, in a checkout next to it.
    folder = package / "configs"
    folder = folder if folder.is_dir() else package.parent / "configs"
    paths = sorted(folder.glob("*.toml"), key=lambda path: (path.stem != "default", path.stem))
    return {path.stem: path for path in paths}


def load_config(
    source: str | Path | Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    text: Sequence[str] = (),
) -> Config:
    """Reads and checks a configuration.

    Sizes and steps that suit the length of the text are chosen later, by `corpus.fit.fit_to_text`,
    for sources other than the bundled stories.

    Args:
      source: a path, the name of a shipped configuration, a nested dictionary such as `config_record`
        returns, or None for the default configuration.
      overrides: `"SECTION.KEY=VALUE"` strings; VALUE is TOML, or plain text if it is not valid TOML.
        "none" unsets a setting that may be unset.
      text: paths for `data.paths`. They select `data.source = "files"`, unless the source already
        takes paths.
    Raises:
      UserError: with one line for each problem.
      TypeError: `overrides` is not a sequence of strings.
    """
    check_overrides(overrides)
    if isinstance(text, str) or not isinstance(text, Sequence):
        raise TypeError(f"`text` must be a list of paths, such as ['book.txt']. Received: {text!r}")
    origin, raw = _read(source)
    sections = _sections(raw, origin)
    if text:
        _set_paths(sections, text)
    problems: list[str] = []
    overridden = apply_overrides(sections, overrides, problems)
    try:
        config = Config.model_validate(sections)
    except ValidationError as error:
        problems += [problem_of(details, origin, overridden) for details in error.errors()]
    if problems:
        raise UserError(*problems)
    return config


def sampling_config(**settings: Any) -> SamplingConfig:
    """Checks settings of `[sampling]` alone; settings that are left out have the defaults of the class.

    Raises:
      UserError: with one line for each problem, which names the argument.
    """
    # NumPy's numbers and arrays become those of Python.
    values = {n: v.tolist() if hasattr(v, "tolist") else v for n, v in settings.items()}
    try:
        return SamplingConfig.model_validate(values)
    except ValidationError as error:
        raise UserError(*map(_sampling_problem, error.errors())) from None


def _sampling_problem(details: Any) -> str:
    name = str(details["loc"][0])
    if details["type"] == "extra_forbidden":
        message = "unknown setting" + nearest(name, SamplingConfig.model_fields)
        return ArgumentProblem(name, details["input"], message)
    return problem_of(details | {"loc": (name,)}, "", ())


def _sections(raw: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Returns a copy of the sections, without the format number.

    Raises:
      UserError: the format is not a number or belongs to a later version.
    """
    number = raw.get("format", FORMAT)
    if type(number) is not int or number < 1:
        raise UserError(f"{origin}format = {number!r}: should be a number from 1 to {FORMAT}")
    if number > FORMAT:
        raise UserError(
            f"{origin}format = {number}: was written by a later version of minigpt; this version reads "
            f"formats up to {FORMAT}"
        )
    return {
        name: dict(settings) if isinstance(settings, Mapping) else settings
        for name, settings in raw.items()
        if name != "format"
    }


def _set_paths(sections: dict[str, Any], paths: Sequence[str]) -> None:
    data = sections.setdefault("data", {})
    if not isinstance(data, dict):
        return
    with_paths = {name for name, v in variants("data").items() if "paths" in v.model_fields}
    if data.get("source") not in with_paths:
        select_variant(sections, "data", "files")
    data["paths"] = list(paths)


def _read(source: str | Path | Mapping[str, Any] | None) -> tuple[str, Mapping[str, Any]]:
    """Returns the beginning of messages, and the content."""
    if source is None:
        return "", {}
    if isinstance(source, Mapping):
        return "", source
    if not isinstance(source, str | Path):
        message = "should be a path, the name of a shipped configuration, or a dictionary"
        raise UserError(ArgumentProblem("config", source, message))
    path = shipped_configs().get(str(source), Path(source))
    try:
        return f"{path}: ", tomllib.loads(read_file(path, MAX_FILE_BYTES).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid UTF-8 at byte {error.start}") from None
    # RecursionError: deeply nested brackets.
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None
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
