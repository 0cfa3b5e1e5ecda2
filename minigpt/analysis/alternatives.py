"""What to change for another time."""

from dataclasses import dataclass
from typing import Any

from minigpt.analysis.loss_curves import ExpectedLoss


@dataclass(frozen=True)
class Alternative:
    """Settings for another time limit.

    Attributes:
      minutes: the time limit.
      settings: what to add to the command, as "SECTION.KEY=VALUE".
      command: the whole command.
      loss: the expected validation loss.
    """

    minutes: float
    settings: tuple[str, ...]
    command: str
    loss: ExpectedLoss

    def as_dict(self) -> dict[str, Any]:
        return {
            "minutes": self.minutes,
            "settings": list(self.settings),
            "command": self.command,
            **self.loss.as_dict(),
        }
