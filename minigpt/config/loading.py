"""Reads a configuration from a TOML file or a dictionary.

A TOML file has one table for each section (`[data]`, `[tokenizer]`, `[model]`, `[training]`,
`[sampling]`). A setting that the file leaves out has its default. All problems of a file and its overrides
are reported together, as one `UserError`.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from minigpt.config.migration import migrate
from minigpt.config.overrides import apply_overrides, check_overrides, select_variant
from minigpt.config.problems import nearest, problem_of
from minigpt.config.sampling import SamplingConfig
from minigpt.config.schema import Config, variants
from minigpt.errors import ArgumentProblem, UserError
from minigpt.storage.files import read_file

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
      source: a path, the name of a shipped configuration, a nested dictionary, or None for the
        default configuration.
      overrides: `"SECTION.KEY=VALUE"` strings; VALUE is TOML, or plain text if it is not valid TOML.
        "none" unsets a setting that may be unset.
      text: paths for `data.paths`. They select `data.source = "files"`, unless the source already
        takes paths.
    Raises:
      UserError: with one line for each problem.
      TypeError: `overrides` is not a sequence of strings.
    """
    return _load(source, overrides, text)


def load_record(record: Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """Reads and checks the configuration that a run or a checkpoint recorded.

    Settings that are absent from a record without a format number have the defaults of the version that
    wrote it; see `migration`.

    Args:
      record: the path of a config.toml, or what `config_record` returned.
      overrides: as for `load_config`.
    Raises:
      UserError: with one line for each problem.
    """
    return _load(record, overrides, is_record=True)


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


def _load(
    source: str | Path | Mapping[str, Any] | None,
    overrides: Sequence[str],
    text: Sequence[str] = (),
    is_record: bool = False,
) -> Config:
    check_overrides(overrides)
    if isinstance(text, str) or not isinstance(text, Sequence):
        raise TypeError(f"`text` must be a list of paths, such as ['book.txt']. Received: {text!r}")
    origin, raw = _read(source)
    try:
        sections = migrate(raw, is_record)
    except ValueError as error:
        raise UserError(f"{origin}{error}") from None
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
