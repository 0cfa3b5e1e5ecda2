"""analysis.json: measurements of a run after its epochs, and the verdicts of the doctor.

`insight` writes this record; the report, the page of a model and the list of runs read it. A file that does
not have these types and lengths, because it is damaged or from somebody else, is not read at all.
"""

import functools
import json
import re
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from minigpt.notices import LOGGER
from minigpt.runs.records import Count
from minigpt.storage.atomic import replace_file
from minigpt.storage.files import read_file

COPIED = 0.2
# Larger files are not read.
_MOST_BYTES = 20_000_000

State = Literal["training", "finished", "interrupted", "failed"]
Number = Annotated[float, Field(allow_inf_nan=False)]
T = TypeVar("T")
# Lengths that no written file reaches: pages show these values.
Name = Annotated[str, Field(max_length=10_000)]
Sentences = Annotated[str, Field(max_length=10_000)]
Text = Annotated[str, Field(max_length=100_000)]
Few = Annotated[list[T], Field(max_length=200)]
Many = Annotated[list[T], Field(max_length=10_000)]

# Id → title.
TITLES = {
    "diverging": "Training diverged",
    "not_learning": "The model did not learn",
    "unlike": "The held-out text is unlike the training text",
    "too_short": "Still improving",
    "no_better": "The model is no better than the one that it began from",
    "below_ngram": "Counts of n-grams predict the text better",
    "overfitted": "The model overfitted the training text",
    "memorized": "The model memorized the training text",
    "too_small": "The model is too small for the text",
    "suspicious_text": "The text looks suspicious",
}


@dataclass(frozen=True)
class Verdict:
    """A verdict of the doctor: what is wrong with a run.

    Attributes:
      id: one of `TITLES`, or of another version.
      evidence: sentences with the figures that the verdict follows from.
      action: what to do, with RUN in place of the run: see `runnable_action`; "" for none.
    """

    id: Name
    evidence: Sentences
    action: Sentences

    @property
    def title(self) -> str:
        return TITLES.get(self.id, self.id.replace("_", " "))

    def as_dict(self) -> dict[str, str]:
        return asdict(self)

    def runnable_action(self, run: str | Path, command: str = "minigpt") -> str:
        """Returns the action with commands for the shell, in which the user calls minigpt as `command`.

        RUN stands for the run in what is recorded: a run can be moved, and its files can be given to
        others, who should not learn the folders of a user.
        """
        path = shlex.quote(str(run))
        return re.sub(
            r"`minigpt ([^`]*)\bRUN\b", lambda match: f"`{command} {match[1]}{path}", self.action
        )


@dataclass(frozen=True)
class Finding:
    """Something suspicious about a text, in one sentence with figures, without control characters.

    `kind` is "duplicates", "repeated_line", "repeated_text", "encoding", "control_characters" or "html".
    """

    kind: Name
    evidence: Sentences


@dataclass(frozen=True)
class MeasuredSample:
    """A sample: `copied` are the parts of its text in verbatim passages, (begin, end) in code points."""

    prompt: Text
    text: Text
    copied: Few[tuple[Count, Count]]

    def __post_init__(self) -> None:
        if not all(begin <= end <= len(self.text) for begin, end in self.copied):
            raise ValueError("a copied part is not within the text")


@dataclass(frozen=True)
class Memorization:
    """How much of a model's samples is copied from its training text.

    A passage of 8 words and 50 characters counts if it occurs in one document of the training text, with
    exactly the same characters; see `insight.verbatim`.

    Attributes:
      state: "best" or "last".
      epoch, step: after which the model is in this state; None if unknown.
      tokens, words: the size of the samples.
      share: the share of their tokens that are in such passages.
      held_out_share: the same for as much held-out text, which measures common language.
      samples: the samples.
    """

    state: Name
    epoch: Count | None
    step: Count | None
    tokens: Count
    words: Count
    share: Number
    held_out_share: Number
    samples: Many[MeasuredSample]

    @property
    def has_memorized(self) -> bool:
        """Whether the share is at least 20 percentage points above that of held-out text."""
        return self.share - self.held_out_share >= COPIED

    def in_words(self) -> str:
        """Returns a sentence with both shares."""
        return (
            f"{self.share:.1%} of the tokens that the model writes are in passages copied from the "
            f"training text; of held-out text, {self.held_out_share:.1%} is."
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Baselines:
    """Scores of predictions that need no model; None for what was not measured.

    Attributes:
      uniform, unigram, bigram, ngram: nats per token; for pairs, per target token.
      ngram_bits_per_byte, byte_ngram_bits_per_byte, ppmd_bits_per_byte: bits per byte of the held-out text.
    """

    uniform: Number | None = None
    unigram: Number | None = None
    bigram: Number | None = None
    ngram: Number | None = None
    ngram_bits_per_byte: Number | None = None
    byte_ngram_bits_per_byte: Number | None = None
    ppmd_bits_per_byte: Number | None = None


@dataclass(frozen=True)
class Passage:
    """A passage of the held-out text: its mean loss, its tokens with their losses, the source of a pair."""

    loss: Number
    tokens: Many[tuple[Sentences, Number]]
    source: Text | None = None


# The mean loss of some tokens: the keys are "from", "to" (None for no end), "tokens" and "loss".
Group = Annotated[dict[Name, int | Number | None], Field(max_length=10)]
# The held-out text, and the lowest, the mean and the highest of parts of the training text.
Likeness = Annotated[list[Number], Field(min_length=4, max_length=4)]


@dataclass(frozen=True)
class Analysis:
    """The content of analysis.json; None for what is not known.

    Attributes:
      state: of training; None in a run that was imported.
      written: seconds since 1970.
      version: of minigpt.
      tokens_per_step: tokens of a weight update; 0 if it is not known.
      planned_steps: weight updates that training will have.
      resumed_at: the weight updates at which training was resumed.
      baselines: see `Baselines`.
      bytes_per_token: of the held-out text.
      positions, frequencies: the loss of the held-out tokens by position, and by how often the training
        text has them.
      passages: those of the held-out text with the highest and the lowest losses.
      memorization: what was measured of the samples of the best and of the last state.
      held_out: see `evaluation.baselines.held_out_likeness`; empty if the texts are too short to tell.
      text: what was found in the training text; None if it was not examined.
      verdicts: those of the doctor; None if nothing was examined.
    """

    state: State | None = None
    written: Number | None = None
    version: Name | None = None
    tokens_per_step: Number = 0.0
    planned_steps: Count | None = None
    resumed_at: Many[Count] = field(default_factory=list)
    baselines: Baselines = field(default_factory=Baselines)
    bytes_per_token: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    positions: Few[Group] = field(default_factory=list)
    frequencies: Few[Group] = field(default_factory=list)
    passages: dict[Literal["hardest", "easiest"], Few[Passage]] = field(default_factory=dict)
    memorization: dict[Literal["best", "last"], Memorization] = field(default_factory=dict)
    held_out: Annotated[dict[Name, Likeness], Field(max_length=200)] | None = None
    text: Few[Finding] | None = None
    verdicts: Few[Verdict] | None = None


@functools.cache
def _adapter() -> TypeAdapter[Analysis]:
    return TypeAdapter(Analysis)


def read_analysis(file: Path) -> Analysis:
    """Returns the content of a file; an empty record if it is missing or, with a warning, damaged."""
    try:
        return _adapter().validate_json(read_file(file, _MOST_BYTES))
    except FileNotFoundError:
        return Analysis()
    except OSError as error:
        problem = error.strerror or str(error)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        problem = f"{place}: {first['msg']}" if place else first["msg"]
    LOGGER.warning("%s: is damaged and not read: %s", file, problem)
    return Analysis()


def write_analysis(file: Path, analysis: Analysis) -> None:
    """Replaces a file, whole or not at all.

    Raises:
      OSError: the file cannot be written; the old one is unchanged.
    """
    text = json.dumps(asdict(analysis), ensure_ascii=False, allow_nan=False, indent=1)
    # Half of a surrogate pair, which a file's name may contain, has no encoding.
    replace_file(file, (text + "\n").encode(errors="replace"))
