"""What a run has recorded about itself: facts.json.

The file may be damaged, from another version, or from somebody else.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from minigpt.runs.records import read_object
from minigpt.storage.atomic import replace_file

Count = Annotated[int, Field(ge=0)]


class _Record(BaseModel):
    # The file may come from someone else, so types are checked. A later version may add keys.
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class Baselines(_Record):
    """Losses of predictions that need no model, in nats per token; for pairs, per target token.

    Attributes:
      uniform: of the uniform distribution.
      unigram: of the token frequencies of the training text; None if the held-out part has no tokens.
    """

    uniform: float
    unigram: float | None


class Facts(_Record):
    """The content of facts.json.

    Attributes:
      command: the command line that started the run, without folders; None if training was started from
        Python.
      parameters: number of weights of the finished model; the factors of LoRA are part of its matrices.
      baselines: losses to compare the validation loss with.
      train_bytes: size of the training text in UTF-8; for pairs, of the targets.
      train_tokens, val_tokens: tokens of the training text and the held-out text.
      device: the device that training began on, as in the summary.
      text: the line of the summary about the text and its split.
    """

    command: str | None
    parameters: Count
    baselines: Baselines
    train_bytes: Count
    train_tokens: Count
    val_tokens: Count
    device: str
    text: str


def facts_as_json(facts: Facts) -> str:
    """Returns the content of the file."""
    return json.dumps(facts.model_dump(), indent=2, ensure_ascii=False) + "\n"


def write_facts(file: Path, facts: Facts) -> None:
    """Writes the file, whole or not at all.

    Raises:
      OSError: the file cannot be written; an existing one is unchanged.
    """
    replace_file(file, facts_as_json(facts).encode())


def read_facts(file: Path) -> dict[str, Any]:
    """Returns the facts as a dictionary with the names of `Facts`; {} if the file is missing or damaged."""
    try:
        return Facts.model_validate(read_object(file)).model_dump()
    except ValidationError:
        return {}
