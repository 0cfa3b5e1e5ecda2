"""Reading `tokenizer.json`, which contains the settings of a saved tokenizer."""

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from minigpt.errors import UserError
from minigpt.storage import files


def state_path(folder: Path) -> Path:
    """Returns the path of `tokenizer.json` in a tokenizer's folder."""
    return folder / "tokenizer.json"


def read_state(folder: Path) -> dict[str, Any]:
    """Reads `tokenizer.json`.

    Returns:
      The entries; `kind` is a str.
    Raises:
      UserError: the file is missing or damaged.
    """
    path = state_path(folder)
    try:
        state = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: damaged, not valid JSON ({error})") from None
    if not isinstance(state, dict) or not isinstance(state.get("kind"), str):
        raise UserError(f"{path}: damaged, not a saved tokenizer")
    return state


def setting(settings: dict[str, Any], name: str, expected_type: Any) -> Any:
    """Returns one entry of the settings.

    Raises:
      KeyError: the entry is missing.
      TypeError: the entry has a different type.
    """
    try:
        return TypeAdapter(expected_type).validate_python(settings[name], strict=True)
    except ValidationError:
        raise TypeError(f"{name} should be {expected_type}") from None


def read_file(path: Path) -> bytes:
    """Reads a regular file.

    Raises:
      UserError: the file cannot be read.
    """
    try:
        return files.read_file(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def read_checked_file(path: Path, sha256: str) -> bytes:
    """Reads a file whose hash `tokenizer.json` has recorded.

    Raises:
      UserError: the file cannot be read, or has another hash.
    """
    data = read_file(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UserError(f"{path}: damaged: not the file that belongs to tokenizer.json")
    return data
