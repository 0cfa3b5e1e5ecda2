"""The command line that a run records, without the user's folders and passwords."""

import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from typing import Any

# An option, then a setting: "--set=data.url=https://...". Both may be absent.
_ARGUMENT = re.compile(r"(?P<name>(?:--[\w-]+=)?(?:\w+\.\w+\s*=)?)(?P<value>.*)", re.DOTALL)


# A setting whose name is quoted, or has spaces around its dots: '"data".url=...'.
_QUOTED_KEY = re.compile(r"""\s*(?:--set=)?\s*(?:["']|\w+\s*\.\s*["']|\w+\s+\.|\w+\.\s)[^=]*=""")


def recorded_command_line(arguments: Sequence[str]) -> str:
    """Returns the command line to record, quoted for the shell.

    Paths and URLs are shortened to their last component: "--text /home/ana/book.txt" becomes
    "--text book.txt". Settings of `[sampling]` hold text, in which "/" does not mean a path.

    Args:
      arguments: the arguments of minigpt, such as ["train", "--text", "book.txt"].
    """
    # File names that are not valid UTF-8 have characters that cannot be written as UTF-8.
    texts = [argument.encode(errors="replace").decode() for argument in arguments]
    return shlex.join(["minigpt", *map(_without_folders, texts)])


def _without_folders(argument: str) -> str:
    match = _ARGUMENT.fullmatch(argument)
    assert match
    name, value = match["name"], match["value"]
    # TOML can write "/" as an escape sequence.
    if name.removeprefix("--set=").startswith("sampling.") or not {"/", "\\"} & set(value):
        return argument
    if _QUOTED_KEY.match(argument):
        return "..."
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return name + _last_component(value)
    return name + json.dumps(_shortened(parsed["value"]), ensure_ascii=False, default=str)


def _shortened(value: Any) -> Any:
    """Shortens every path in a value of TOML."""
    if isinstance(value, str):
        return _last_component(value)
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if isinstance(value, dict):
        return {_last_component(key): _shortened(item) for key, item in value.items()}
    return value


def _last_component(path: str) -> str:
    """Returns the last component of a path or a URL; for a URL without a path, only its scheme."""
    url = re.fullmatch(r"((?:[\w+.-]+:)?//)([^?#]*)(.*)", path, re.DOTALL)
    if not url:
        windows = re.match(r"\w:\\|\\\\", path)
        separated = path.replace("\\", "/") if windows else path
        return separated.rstrip("/").rpartition("/")[2] or path
    scheme, place, query = url.groups()
    host, _, name = place.rstrip("/").rpartition("/")
    # A password may have been typed with characters that end a host. The query may hold a key.
    return name.rpartition("@")[2] if host and "@" not in query else f"{scheme}..."
