"""Base class of all sections of a configuration, and the types of their values."""

import types
import typing
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.fields import FieldInfo

SHA256_PATTERN = "^[0-9a-f]{64}$"
# How an unset value is written in TOML, which has no null.
UNSET = "none"

Fraction = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]
# The upper bound keeps every product of two counts within 64 bits.
Positive = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Section(BaseModel):
    """One section of a configuration. Values have exactly the declared type: "10" is not 10."""

    model_config = ConfigDict(
        extra="forbid", strict=True, validate_default=True, frozen=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _read_unset_values(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {
            key: None if value == UNSET and is_optional(cls.model_fields.get(key)) else value
            for key, value in values.items()
        }


def is_optional(field: FieldInfo | None) -> bool:
    """Returns whether a setting may be unset (None)."""
    return field is not None and type(None) in typing.get_args(field.annotation)


def union_of(key: str, *variants: type[Section]) -> Any:
    """Returns the type of a section with several variants.

    Args:
      key: the setting that selects the variant, such as "kind".
      variants: each declares `key` with the one value that selects it. The first is the default.
    """
    names = [variant.model_fields[key].default for variant in variants]

    def name_of(values: Any) -> Any:
        if isinstance(values, Mapping):
            return values.get(key, names[0])
        return getattr(values, key, None)

    tagged = [Annotated[v, Tag(name)] for v, name in zip(variants, names, strict=True)]
    return Annotated[reduce(or_, tagged), Discriminator(name_of)]


def variants_of(annotation: Any) -> tuple[type[Section], ...]:
    """Returns the classes of a section's type: those of a union, or the one class."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return (annotation,)
    is_container = typing.get_origin(annotation) in (Annotated, Union, types.UnionType)
    arguments = typing.get_args(annotation) if is_container else ()
    return tuple(variant for argument in arguments for variant in variants_of(argument))
