"""The table of sampling settings: how the next token of a text is chosen. Imports no pydantic.

These are derived from the table: the section `[sampling]` (`config/schema.py`), the options of
`minigpt sample`, the fields of the server, the settings of portable files, the arguments of exported
graphs. `scripts/make_sampling_files.py` writes the header of the engine and the table of the page,
`scripts/make_settings_page.py` the documentation.
"""

from dataclasses import dataclass
from typing import Any, Literal

MAX_NEW_TOKENS = 1_000_000


@dataclass(frozen=True)
class Setting:
    """A setting.

    Attributes:
      name: its key in `[sampling]`, and its name in Python and in requests.
      type: int, float, list[str] or list[int].
      default: its value if nothing is given.
      description: what it does, in one line.
      role: what it affects: "distribution": the probabilities of the next token; "text": one text;
        "search": the beam search; "training": the samples during training.
      least, most: the smallest and the largest value. They apply to each number of a list, and to the
        length of each string.
      above, below: limits that are not values themselves.
      neutral: the value that changes nothing; None if there is none.
      models: the kinds of models on which it has an effect, as `model.kind` names them.
    """

    name: str
    type: Any
    default: Any
    description: str
    role: Literal["distribution", "text", "search", "training"] = "distribution"
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    neutral: Any = None
    models: tuple[str, ...] = ("gpt",)

    @property
    def formats(self) -> tuple[str, ...]:
        """The exports that have it; TensorFlow has all.

        "gguf" with the page, the server and `minigpt sample`; "huggingface" if `generation_config.json`
        records it.
        """
        if self.role in ("training", "search"):
            return ("saved_model",) if self.role == "search" else ()
        return ("saved_model", "gguf", *(["huggingface"] if self.name == "typical_p" else []))

    def limits(self) -> list[tuple[str, float]]:
        """Returns the limits as comparisons: (">=", 0) and the like."""
        named = ((">=", self.least), (">", self.above), ("<=", self.most), ("<", self.below))
        return [(comparison, limit) for comparison, limit in named if limit is not None]

    def takes_effect(self, value: Any) -> bool:
        """Returns whether a value changes texts, compared with a program that lacks the setting."""
        return self.neutral is not None and value != self.neutral


SETTINGS = (
    Setting("prompts", list[str], [""], "prompts of the samples after an epoch", "training"),
    Setting(
        "max_new_tokens",
        int,
        40,
        "maximum number of tokens to generate",
        "text",
        least=0,
        most=MAX_NEW_TOKENS,
    ),
    Setting(
        "temperature",
        float,
        1.0,
        "0 always takes the most probable token; 1 samples from the probabilities of the model; higher "
        "values make improbable tokens more frequent",
        least=0,
        most=1e30,
        neutral=1.0,
    ),
    Setting(
        "top_k",
        int,
        10,
        "sample from the k most probable tokens; 0: no limit",
        least=0,
        below=2**31,
        neutral=0,
    ),
    Setting(
        "top_p",
        float,
        1.0,
        "sample from the smallest set of tokens with this total probability; 1: no limit",
        above=0,
        most=1,
        neutral=1.0,
    ),
    Setting(
        "min_p",
        float,
        0.0,
        "leave out tokens less probable than this share of the most probable one; 0: no limit",
        least=0,
        most=1,
        neutral=0.0,
    ),
    Setting(
        "typical_p",
        float,
        1.0,
        "sample from the smallest set of tokens with this total probability whose information is "
        "closest to the entropy; 1: no limit",
        above=0,
        most=1,
        neutral=1.0,
    ),
    Setting(
        "repetition_penalty",
        float,
        1.0,
        "values above 1 make tokens that are already in the text less probable",
        above=0,
        most=1e30,
        neutral=1.0,
    ),
    Setting(
        "beams",
        int,
        1,
        "values above 1: beam search with this many beams, no sampling",
        "search",
        least=1,
        most=1000,
        neutral=1,
        models=("gpt", "encoder_decoder"),
    ),
    Setting(
        "length_penalty",
        float,
        1.0,
        "for beam search: higher values favor longer texts; 0: none",
        "search",
        least=-1e30,
        most=1e30,
        models=("gpt", "encoder_decoder"),
    ),
    Setting(
        "stop",
        list[str],
        [],
        "strings that end the text; they are not part of it",
        "text",
        least=1,
    ),
    Setting(
        "banned_tokens",
        list[int],
        [],
        "token ids that are never generated",
        "text",
        least=0,
    ),
    Setting(
        "seed",
        int,
        0,
        "the same prompt, settings and seed give the same text",
        "text",
        least=0,
        below=2**31,
    ),
    Setting(
        "print_every",
        int,
        1,
        "epochs between two printed samples",
        "training",
        least=1,
        most=1_000_000_000,
        models=("gpt", "encoder_decoder"),
    ),
    Setting(
        "translations",
        int,
        5,
        "for pairs: held-out sentences translated after an epoch",
        "training",
        least=0,
        most=1_000_000,
        models=("encoder_decoder",),
    ),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}
# In the order of `SamplingSettings` of TensorFlow and of the engine.
DISTRIBUTION = tuple(setting for setting in SETTINGS if setting.role == "distribution")
