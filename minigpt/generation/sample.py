"""Sample: a prompt and its continuation."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Sample:
    """A prompt and its continuation.

    Attributes:
      prompt: the prompt, as given.
      text: the continuation, without the stop string that ended it. Without a stop string, the decoded
        prompt followed by `text` equals the decoded sequence.
      seed: the seed of the draws.
      tokens: ids of the continuation, up to the token that completed the stop string.
    """

    prompt: str
    text: str
    seed: int
    tokens: list[int]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
