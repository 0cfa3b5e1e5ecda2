"""What all sections of a configuration share: strict checks, and types of values."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

SHA256_PATTERN = "^[0-9a-f]{64}$"

Fraction = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    # Strict: "10" is not 10 and true is not 1; a slip in a file should be seen, not guessed at.
    model_config = ConfigDict(
        extra="forbid", strict=True, validate_default=True, frozen=True, allow_inf_nan=False
    )
