"""analysis.json: measurements of a run after its epochs, and the verdicts of the doctor."""

import json
import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from minigpt.runs.run import Run
from minigpt.storage.atomic import replace_file

# Id → title.
TITLES = {
    "diverging": "Training diverged",
    "not_learning": "The model did not learn",
    "learning_rate_high": "The learning rate was too high",
    "learning_rate_low": "The learning rate was too low",
    "unlike": "The held-out text is unlike the training text",
    "too_short": "Still improving",
    "below_ngram": "Counts of n-grams predict the text better",
    "memorized": "The model memorized the training text",
    "too_large": "The model is too large for the text",
    "too_small": "The model is too small for the text",
    "suspicious_text": "The text looks suspicious",
}


@dataclass(frozen=True)
class Verdict:
    """A verdict of the doctor: what is wrong with a run.

    Attributes:
      id: one of `TITLES`.
      evidence: sentences with the figures that the verdict follows from.
      action: one thing to do about it. Commands in it have RUN in place of the run: see `runnable`.
    """

    id: str
    evidence: str
    action: str

    @property
    def title(self) -> str:
        return TITLES[self.id]

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def runnable(action: str, run: str | Path, command: str = "minigpt") -> str:
    """Returns the action of a verdict with commands that can be pasted into a shell.

    RUN stands for the run in what is recorded: a run can be moved, and its files can be given to others,
    who should not learn the folders of a user.

    Args:
      action: `Verdict.action`.
      run: the run directory.
      command: how the user calls minigpt, quoted for the shell.
    """
    path = shlex.quote(str(run))
    return re.sub(r"`minigpt ([^`]*)\bRUN\b", lambda match: f"`{command} {match[1]}{path}", action)


def write_analysis(run: Run, analysis: dict[str, Any]) -> None:
    """Replaces analysis.json, whole or not at all.

    Raises:
      OSError: the file cannot be written; the old one is unchanged.
    """
    text = json.dumps(analysis, ensure_ascii=False, allow_nan=False, indent=1)
    # Half of a surrogate pair, which a sample may contain, has no encoding.
    replace_file(run.analysis_file, (text + "\n").encode(errors="backslashreplace"))
