"""A verdict of the doctor."""

from dataclasses import asdict, dataclass

IDS = (
    "diverging",
    "not_learning",
    "learning_rate_high",
    "learning_rate_low",
    "too_short",
    "memorized",
    "too_large",
    "too_small",
    "suspicious_text",
)


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a training.

    Attributes:
      id: one of `IDS`.
      evidence: sentences with the figures that the verdict follows from.
      action: one thing to do about it.
    """

    id: str
    evidence: str
    action: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)
