"""Base class of all sections of a configuration, and the types of their values."""

import typing
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

SHA256_PATTERN = "^[0-9a-f]{64}$"
# How an unset value is written in TOML, which has no null.
UNSET = "none"

Fraction = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]
# The upper bound keeps every product of two counts within 64 bits.
Positive = Annotated[int, Field(ge=1, le=1_000_000_000)]


# Earlier names of settings, which runs and files have.
_RENAMED = {"keep_epochs": "keep_snapshots"}


class Section(BaseModel):
    """One section of a configuration. Values have exactly the declared type: "10" is not 10.

    The string after a setting is its description.
    """

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        validate_default=True,
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _read_unset_values(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        named = {_RENAMED.get(str(key), str(key)): value for key, value in values.items()}
        return {
            key: None if value == UNSET and is_optional(cls.model_fields.get(key)) else value
            for key, value in named.items()
        }

    def _conflict(self) -> tuple[str, str] | None:
        """Returns a setting that does not suit the others, and what would be right; None if all suit."""
        return None

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if conflict := self._conflict():
            raise combination_error(self, *conflict)
        return self


def combination_error(section: Section, name: str, message: str) -> PydanticCustomError:
    """Returns an error that names a setting; pydantic alone would name its section."""
    context = {"setting": name, "value": getattr(section, name)}
    return PydanticCustomError("combination", message, context)


def is_optional(field: FieldInfo | None) -> bool:
    """Returns whether a setting may be unset (None)."""
    return field is not None and type(None) in typing.get_args(field.annotation)


def selected_by(key: str, default: str) -> Discriminator:
    """Returns the discriminator of a union of sections, each with a `Tag` of its name.

    Args:
      key: the setting that holds the name, such as "kind".
      default: the name if the setting is left out.
    """
    return Discriminator(lambda values: selected_name(values, key, default))


def selected_name(values: Any, key: str, default: str | None) -> Any:
    """Returns the name of the variant that a section selects; None if it is not a section."""
    if isinstance(values, Mapping):
        return values.get(key, default)
    return getattr(values, key, None)
