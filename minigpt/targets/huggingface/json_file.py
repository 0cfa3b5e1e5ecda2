"""Reading a JSON object from a file."""

import json
from pathlib import Path
from typing import Any

from minigpt.errors import UserError
from minigpt.tokenizers.tokenizer_file import read_file


def read_json_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
      UserError: the file cannot be read or contains anything other than an object.
    """
    try:
        content = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: should be a JSON object")
    return content
