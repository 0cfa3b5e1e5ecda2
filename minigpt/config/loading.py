"""Every setting: its name, default, check and one line of help.

A configuration is a TOML file with one table a section (`[data]`, `[tokenizer]`, `[model]`, `[training]`,
`[sampling]`). What a file leaves out has the default given here. All that is wrong with a file and its
overrides is reported together, as one `UserError`.
"""

import difflib
import reprlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from minigpt.config.data import TAKES_PATHS
from minigpt.config.schema import SECTIONS, Config
from minigpt.config.section import variants_of
from minigpt.errors import UserError

MODEL_KINDS = ("gpt", "encoder_decoder")


def _settings(section: str) -> Mapping[str, Any]:
    fields: dict[str, Any] = {}
    for variant in variants_of(Config.model_fields[section].annotation):
        fields |= variant.model_fields
    return fields


def shipped_configs() -> dict[str, Path]:
    """Name → path of every configuration that travels with the package, `default` first."""
    here = Path(__file__).resolve().parents[1]
    # An installed wheel holds them beside this file, a checkout one level up.
    folder = here / "configs" if (here / "configs").is_dir() else here.parent / "configs"
    names = sorted(folder.glob("*.toml"), key=lambda path: (path.stem != "default", path.stem))
    return {path.stem: path for path in names}


def load_config(
    source: str | Path | Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    text: Sequence[str] = (),
) -> Config:
    """Reads and checks a configuration.

    Args:
      source: a path, the name of a shipped configuration, a nested dictionary, or None for the
        defaults of this file.
      overrides: `"SECTION.KEY=VALUE"` strings; VALUE is TOML, or plain text where TOML does not read it.
      text: paths that become `data.paths`, with `data.source = "files"` unless the source takes paths
        of another kind.
    Raises:
      UserError: with every problem found, one line each.
    """
    origin, raw = _read(source)
    if text and isinstance(data := raw.setdefault("data", {}), dict):
        if data.get("source") not in TAKES_PATHS:
            data["source"] = "files"
        data["paths"] = list(text)
        # The address of a download belongs to the source that is not used now.
        data.pop("url", None), data.pop("sha256", None)
    problems, overridden = [], set()
    for override in overrides:
        try:
            overridden.add(_override(raw, override))
        except ValueError as error:
            problems.append(f"--set {override}: {error}")
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        problems += [_problem(origin, overridden, details) for details in error.errors()]
    if problems:
        raise UserError(*problems)
    return config


def dump_config(config: Config, comment: str = "") -> str:
    """TOML that `load_config` reads back to an equal configuration."""
    resolved = config.model_copy(update={"model": config.model.resolved()})
    header = "".join(f"# {line}\n" for line in comment.splitlines())
    return header + tomli_w.dumps(resolved.model_dump(exclude_none=True))


def _read(source: str | Path | Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    if source is None:
        return "", {}
    if isinstance(source, Mapping):
        return "", {key: dict(v) if isinstance(v, Mapping) else v for key, v in source.items()}
    shipped = shipped_configs()
    path = shipped.get(str(source), Path(source))
    try:
        return f"{path}: ", tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid UTF-8 at byte {error.start}") from None
    # Beside what is no TOML: numbers of thousands of digits, brackets in brackets.
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        names = ", ".join(shipped)
        raise UserError(
            f"--config {source}: {error.strerror or error}; should be a TOML file or one of: {names}"
        ) from None


def _override(raw: dict[str, Any], text: str) -> str:
    """Puts one `SECTION.KEY=VALUE` into `raw`; returns `SECTION.KEY`."""
    name, equals, value = text.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and key):
        raise ValueError("should be SECTION.KEY=VALUE, such as training.epochs=3")
    if section not in SECTIONS:
        raise ValueError(f"no section {section!r}{_nearest(section, SECTIONS)}")
    table = raw.setdefault(section, {})
    if isinstance(table, dict):
        table[key] = _value(section, key, value)
    return f"{section}.{key}"


def _value(section: str, key: str, text: str) -> Any:
    field = _settings(section).get(key)
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
    # Text that happens to look like a number is still text where a setting takes text.
    takes_text = field is not None and field.annotation in (str, str | None)
    return text if takes_text and not isinstance(value, str) else value


# Of a value that a user gave: enough to know it by, whatever it is.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlist = _SHORT.maxdict = 20


def _problem(origin: str, overridden: set[str], details: Any) -> str:
    """One line for one of pydantic's findings."""
    place = [str(part) for part in details["loc"]]
    if place[0] == "model" and len(place) > 1 and place[1] in MODEL_KINDS:
        del place[1]  # The variant of the section.
    if details["type"] == "union_tag_invalid":
        kinds = " or ".join(map(repr, MODEL_KINDS))
        return f"{origin}model.kind = {_SHORT.repr(details['ctx']['tag'])}: should be {kinds}"
    name, given = ".".join(place[:2]), details["input"]
    if details["type"] == "combination":
        name, given = details["ctx"]["setting"], details["ctx"]["given"]
    origin = "--set " if name in overridden else origin
    if details["type"] == "extra_forbidden":
        if len(place) == 1:
            return f"{origin}unknown section [{name}]{_nearest(name, SECTIONS)}"
        return f"{origin}unknown setting {name} = {_SHORT.repr(given)}" + _nearest(
            place[1], _settings(place[0]), prefix=f"{place[0]}."
        )
    message = details["msg"].removeprefix("Value error, ").removeprefix("Input ")
    message = message.replace("valid dictionary or instance of", "table of settings like")
    return f"{origin}{name} = {_SHORT.repr(given)}: {message}"


def _nearest(name: str, known: Any, prefix: str = "") -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    if close:
        return f"; did you mean {prefix}{close[0]}?"
    return f"; known are {', '.join(known)}"
