"""A verdict of the doctor."""

from dataclasses import asdict, dataclass

# Id → what is said about it.
TITLES = {
    "diverging": "The training diverged",
    "not_learning": "The model did not learn",
    "learning_rate_high": "The learning rate was too high",
    "learning_rate_low": "The learning rate was too low",
    "unlike": "The held-out text is unlike the training text",
    "too_short": "The training was too short",
    "memorized": "The model memorized the training text",
    "too_large": "The model is too large for the text",
    "too_small": "The model is too small for the text",
    "suspicious_text": "The text looks suspicious",
}


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a training.

    Attributes:
      id: one of `TITLES`.
      evidence: sentences with the figures that the verdict follows from.
      action: one thing to do about it.
    """

    id: str
    evidence: str
    action: str

    @property
    def title(self) -> str:
        return TITLES[self.id]

    def as_dict(self) -> dict[str, str]:
        return asdict(self)
