"""Reading JSON files, and the settings of config.json; every problem is one line."""

import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from minigpt.config import GPTConfig
from minigpt.config.loading import problem_of
from minigpt.errors import UserError
from minigpt.tokenizers.base import read_file


@dataclass(frozen=True)
class FolderConfig:
    """The content of a config.json.

    Attributes:
      model: the description of the model.
      vocab_size: V.
      end_id: the id of the end token; None if config.json does not contain it.
    """

    model: GPTConfig
    vocab_size: int
    end_id: int | None


class ConfigReader:
    """Reads values and collects problems. A value with a problem is replaced by its default.

    Args:
      content: the JSON object.
      path: the path of the file, for messages.
    """

    def __init__(self, content: Mapping[str, Any], path: str) -> None:
        self.content = content
        self.path = path
        self.problems: list[str] = []

    def problem(self, name: str, value: object, message: str) -> None:
        """Adds a problem."""
        self.problems.append(f"{self.path}: {name} = {value!r}: {message}")

    def number(self, name: str, default: int) -> int:
        """Returns a whole number of at least 1."""
        value = self.content.get(name, default)
        if type(value) is not int or value < 1:
            self.problem(name, value, "should be a whole number of at least 1")
            return default
        return value

    def rate(self, name: str, default: float) -> float:
        """Returns a number of at least 0 and less than 1."""
        value = self.content.get(name, default)
        if type(value) not in (int, float) or not 0 <= value < 1:
            self.problem(name, value, "should be at least 0 and less than 1")
            return 0.0
        return float(value)

    def positive(self, name: str, default: float, value: Any = None) -> float:
        """Returns a finite number greater than 0.

        Args:
          name: the setting.
          default: the value if it is absent.
          value: the value, if it is not the entry of that name.
        """
        value = self.content.get(name, default) if value is None else value
        # JSON has whole numbers that no float can hold.
        if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:
            self.problem(name, value, "should be a finite number greater than 0")
            return default
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """Returns true or false."""
        value = self.content.get(name, default)
        if type(value) is not bool:
            self.problem(name, value, "should be True or False")
            return default
        return value

    def one_of(self, name: str, default: str, known: Collection[str]) -> str:
        """Returns one of several strings."""
        value = self.content.get(name, default)
        if not isinstance(value, str) or value not in known:
            self.problem(name, value, f"should be one of {', '.join(known)}")
            return default
        return value

    def fixed(self, values: Mapping[str, bool]) -> None:
        """Checks settings that are supported with one value only, which is also their default."""
        for name, expected in values.items():
            if self.content.get(name, expected) is not expected:
                self.problem(name, self.content[name], f"should be {expected}")

    def result(
        self, settings: Mapping[str, Any], vocab_size: int, end_id: int | None
    ) -> FolderConfig:
        """Returns the description of the model.

        Raises:
          UserError: there are problems.
        """
        if self.problems:
            raise UserError(*self.problems)
        try:
            model = GPTConfig.model_validate(settings)
        except ValidationError as error:
            # `problem_of` expects the location in a whole configuration: section, kind, setting.
            raise UserError(
                *(
                    problem_of(
                        {**details, "loc": ("model", "gpt", *details["loc"])}, f"{self.path}: ", ()
                    )
                    for details in error.errors()
                )
            ) from None
        return FolderConfig(model, vocab_size, end_id)


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
