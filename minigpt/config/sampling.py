"""The table of sampling settings: how the next token of a text is chosen. Imports no pydantic.

The fields of `TextSettings` are the table. These are derived from it: the section `[sampling]`
(`config/schema.py`), the options of `minigpt sample`, the fields of the server, the settings of portable
files, the arguments of exported graphs. `scripts/make_sampling_files.py` writes the header of the engine
and the table of the page, `scripts/make_settings_page.py` the documentation.
"""

import numbers
import operator
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from minigpt.errors import ArgumentProblem, UserError, nearest

MAX_NEW_TOKENS = 1_000_000
_COMPARISONS: dict[str, tuple[Any, str]] = {
    ">=": (operator.ge, "greater than or equal to"),
    ">": (operator.gt, "greater than"),
    "<=": (operator.le, "less than or equal to"),
    "<": (operator.lt, "less than"),
}
_KINDS: dict[Any, tuple[Any, str]] = {
    int: (numbers.Integral, "integer"),
    float: (numbers.Real, "number"),
    str: (str, "string"),
}


@dataclass(frozen=True)
class SettingRow:
    """A row of the table.

    Attributes:
      name: its key in `[sampling]`, and its name in Python and in requests.
      type: int, float, list[str] or list[int].
      description: what it does, in one line.
      role: what it affects: "distribution": the probabilities of the next token; "text": one text;
        "search": the beam search of translations; "training": the samples during training.
      least, most: the smallest and the largest value. They apply to each number of a list, and to the
        length of each string.
      above, below: limits that are not values themselves.
      neutral: the value that changes nothing; None if there is none.
      models: the kinds of models on which it has an effect, as `model.kind` names them.
      in_engine: whether the engine has it, if it concerns one text and not a search.
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
    in_engine: bool = True

    @property
    def formats(self) -> tuple[str, ...]:
        """The exports that have it; TensorFlow has all.

        "gguf" with the page, the server and `minigpt sample`; "huggingface" if `generation_config.json`
        records it.
        """
        if self.role in ("training", "search"):
            return ()
        has = {
            "saved_model": self.name != "stop",
            "gguf": self.in_engine,
            "huggingface": self.name == "typical_p",
        }
        return tuple(name for name in has if has[name])

    def limits(self) -> list[tuple[str, float]]:
        """Returns the limits as comparisons: (">=", 0) and the like."""
        named = ((">=", self.least), (">", self.above), ("<=", self.most), ("<", self.below))
        return [(comparison, limit) for comparison, limit in named if limit is not None]

    def takes_effect(self, value: Any) -> bool:
        """Returns whether a value changes texts, compared with a program that lacks the setting."""
        return self.neutral is not None and value != self.neutral

    def problem(self, value: Any) -> ArgumentProblem | None:
        """Returns what is wrong with a value, or with the first wrong element of a list."""
        kind, elements = self.type, [value]
        if kind not in _KINDS:
            (kind,), elements = kind.__args__, value
            if not isinstance(value, list | tuple):
                return ArgumentProblem(self.name, value, "should be a valid list")
        for element in elements:
            if message := self._message(kind, element):
                return ArgumentProblem(self.name, element, message)
        return None

    def _message(self, kind: Any, value: Any) -> str | None:
        types, word = _KINDS[kind]
        if isinstance(value, bool) or not isinstance(value, types):
            return f"should be a valid {word}"
        size = len(value) if isinstance(value, str) else value
        if not abs(size) <= sys.float_info.max:
            return "should be a finite number"
        if isinstance(value, str) and value != value.encode(errors="replace").decode():
            return "should be valid Unicode"
        for comparison, limit in self.limits():
            holds, words = _COMPARISONS[comparison]
            if not holds(size, limit):
                return f"should be {words} {limit}{' characters' if kind is str else ''}"
        return None


def _row(default: Any, description: str, role: str = "distribution", **others: Any) -> Any:
    """Returns a field of `TextSettings`; the arguments are attributes of `SettingRow`."""
    metadata = {"default": default, "description": description, "role": role, **others}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


_BOTH = ("gpt", "encoder_decoder")
# The limits of a total probability, of which 1 leaves nothing out.
_TOTAL: dict[str, Any] = {"above": 0, "most": 1, "neutral": 1.0}


@dataclass(frozen=True)
class TextSettings:
    """How a text is continued. `settings_of` checks the values. The order is that of the filters."""

    # ruff: noqa: RUF009 - a row is made once.
    prompts: list[str] = _row(
        [""],
        "prompts of the samples after an epoch; of a text, two beginnings of its held-out part if unset",
        "training",
    )
    max_new_tokens: int = _row(
        40, "maximum number of tokens to generate", "text", least=0, most=MAX_NEW_TOKENS
    )
    temperature: float = _row(
        1.0,
        "0 always takes the most probable token; 1 samples from the probabilities of the model; higher "
        "values make improbable tokens more frequent",
        least=0,
        most=1e30,
        neutral=1.0,
    )
    top_k: int = _row(
        10, "sample from the k most probable tokens; 0: no limit", least=0, below=2**31, neutral=0
    )
    top_p: float = _row(
        1.0,
        "sample from the smallest set of tokens with this total probability; 1: no limit",
        **_TOTAL,
    )
    min_p: float = _row(
        0.0,
        "leave out tokens less probable than this share of the most probable one; 0: no limit",
        least=0,
        most=1,
        neutral=0.0,
    )
    typical_p: float = _row(
        1.0,
        "sample from the smallest set of tokens with this total probability whose information is "
        "closest to the entropy; 1: no limit",
        **_TOTAL,
    )
    repetition_penalty: float = _row(
        1.0,
        "values above 1 make tokens that are already in the text less probable",
        above=0,
        most=1e30,
        neutral=1.0,
    )
    beams: int = _row(
        1,
        "for pairs: 1 translates greedily; higher values are the beams of a beam search",
        "search",
        least=1,
        most=1000,
        neutral=1,
        models=("encoder_decoder",),
    )
    length_penalty: float = _row(
        1.0,
        "for beam search: higher values favor longer translations; 0: none",
        "search",
        least=-1e30,
        most=1e30,
        models=("encoder_decoder",),
    )
    stop: list[str] = _row(
        [], "strings that end the text; they are not part of it", "text", least=1
    )
    banned_tokens: list[int] = _row([], "token ids that are never generated", "text", least=0)
    seed: int = _row(
        0, "the same prompt, settings and seed give the same text", "text", least=0, below=2**31
    )
    print_every: int = _row(
        1,
        "epochs between two printed samples",
        "training",
        least=1,
        most=1_000_000_000,
        models=_BOTH,
    )
    translations: int = _row(
        5,
        "for pairs: held-out sentences translated after an epoch",
        "training",
        least=0,
        most=1_000_000,
        models=("encoder_decoder",),
    )

    @property
    def numbers(self) -> list[float]:
        """The arguments of the engine, in its order: `SAMPLING_PARAMETERS`, without the seed."""
        taken = (setting for setting in DISTRIBUTION if setting.in_engine)
        # WebAssembly distinguishes integers.
        return [setting.type(getattr(self, setting.name)) for setting in taken]


SETTINGS = tuple(SettingRow(row.name, row.type, **row.metadata) for row in fields(TextSettings))
BY_NAME = {setting.name: setting for setting in SETTINGS}
# In the order of `SamplingSettings` of TensorFlow and of the engine.
DISTRIBUTION = tuple(setting for setting in SETTINGS if setting.role == "distribution")


def settings_of(values: Mapping[str, Any], kind: str | None = None) -> TextSettings:
    """Returns checked settings; those that are left out have their defaults.

    Args:
      values: setting → value.
      kind: that of the model; a setting that has no effect on it has its default.
    Raises:
      UserError: a name is unknown, or a value cannot be used, with a line for each.
    """
    # NumPy's numbers and arrays become those of Python.
    plain = {n: v.tolist() if hasattr(v, "tolist") else v for n, v in values.items()}
    problems = [
        BY_NAME[name].problem(value)
        if name in BY_NAME
        else ArgumentProblem(name, value, f"unknown setting{nearest(name, BY_NAME)}")
        for name, value in plain.items()
    ]
    if found := [problem for problem in problems if problem]:
        raise UserError(*found)
    for row in (BY_NAME[name] for name in plain if kind):
        if kind not in row.models and plain[row.name] != row.default:
            problem = f"has no effect on a model of kind {kind!r}; should be left out"
            raise UserError(ArgumentProblem(row.name, plain[row.name], problem))
    return TextSettings(**plain)


def own_settings(section: Any) -> dict[str, Any]:
    """Returns how a run's `[sampling]` chooses tokens, without length and seed; {} if it is damaged."""
    names = [row.name for row in SETTINGS if "gguf" in row.formats]
    names = [name for name in names if name not in ("max_new_tokens", "seed")]
    try:
        own = {name: section[name] for name in names if name in section}
        settings_of(own)
    except (TypeError, UserError):
        return {}
    return own


def engine_problems(values: Mapping[str, Any], has: str) -> list[ArgumentProblem]:
    """Returns a problem for each setting that the engine does not have and that would change a text.

    Args:
      values: setting → value; others have their defaults.
      has: the end of the line: what has it.
    """
    given = ((setting, values.get(setting.name, setting.default)) for setting in SETTINGS)
    return [
        ArgumentProblem(setting.name, value, f"should be {setting.neutral}: {_lack(setting)}{has}")
        for setting, value in given
        if "gguf" not in setting.formats and setting.takes_effect(value)
    ]


def ignored_settings(values: Mapping[str, Any]) -> list[str]:
    """Returns a line for each setting of `[sampling]` that has an effect, but not in a portable file."""
    return [
        f"sampling.{found.name} = {found.value} has no effect: {_lack(BY_NAME[found.name])}"
        for found in engine_problems(values, "")
    ]


def _lack(setting: SettingRow) -> str:
    return f"a portable file has no {'beam search' if setting.name == 'beams' else setting.name}"
