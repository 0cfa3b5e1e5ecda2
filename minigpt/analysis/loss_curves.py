"""The validation loss to expect from a training."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ExpectedLoss:
    """The loss to expect, as a range.

    Attributes:
      loss: lowest and highest validation loss in nats per token; None if nothing is known.
      bits_per_byte: the same in bits per byte; None if the tokenizer loses text.
      basis: where the range comes from, in words.
    """

    loss: tuple[float, float] | None
    bits_per_byte: tuple[float, float] | None
    basis: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "expected_loss": _range(self.loss),
            "expected_bits_per_byte": _range(self.bits_per_byte),
            "expected_from": self.basis,
        }


def _range(values: tuple[float, float] | None) -> dict[str, float] | None:
    return {"low": round(values[0], 4), "high": round(values[1], 4)} if values else None
