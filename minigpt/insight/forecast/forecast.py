"""What a training will take and give. Imports no TensorFlow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minigpt.insight.forecast.alternatives import Alternative
from minigpt.insight.forecast.loss_curves import ExpectedLoss
from minigpt.insight.forecast.training_time import Times


@dataclass(frozen=True)
class Forecast:
    """What a training would take and give; see `docs/guide.md`, "Before a training".

    Attributes:
      text: what is trained on: source, bytes, documents, split.
      tokens: the tokenizer and the numbers of tokens.
      model: the settings of `[model]`, all resolved.
      training: sizes of the batches, updates, epochs, passes over the text.
      parameters: number of weights by part, and in total as "total".
      memory_bytes: peak of the resident memory of the process.
      times: seconds.
      loss: the expected validation loss.
      alternatives: settings for other time limits.
      lines: the summary for people, by subject.
    """

    text: dict[str, Any]
    tokens: dict[str, Any]
    model: dict[str, Any]
    training: dict[str, Any]
    parameters: dict[str, int]
    memory_bytes: int
    times: Times
    loss: ExpectedLoss
    alternatives: Sequence[Alternative]
    device: str
    lines: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Returns the forecast as JSON values; the names are stable."""
        return {
            "text": self.text,
            "tokens": self.tokens,
            "model": self.model,
            "training": self.training,
            "parameters": self.parameters,
            "device": self.device,
            "memory_bytes": self.memory_bytes,
            "first_epoch_seconds": round(self.times.first_epoch, 1),
            "total_seconds": round(self.times.total, 1),
            "seconds": {part: round(seconds, 2) for part, seconds in self.times.parts.items()},
            **self.loss.as_dict(),
            "alternatives": [alternative.as_dict() for alternative in self.alternatives],
        }
