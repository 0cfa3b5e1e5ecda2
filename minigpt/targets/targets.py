"""The formats of an export, one class each. Listing them imports no TensorFlow."""

import abc
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from minigpt.config import SamplingConfig, TransformerConfig
from minigpt.environment import install_command
from minigpt.errors import ArgumentProblem, UserError
from minigpt.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    from minigpt.runs.run import Run

# Name → module and class, in this package.
TARGETS = {
    "saved_model": "saved_model.SavedModel",
    "keras": "keras_file.KerasFile",
    "huggingface": "huggingface.HuggingFace",
    "gguf": "gguf.target.Gguf",
    "html": "html.Html",
    "litert": "litert.LiteRT",
    "onnx": "onnx.Onnx",
    "transformers_js": "onnx.TransformersJs",
}
# How matrices are stored.
WeightsType = Literal["float32", "float16", "int8"]
STORED: tuple[WeightsType, ...] = get_args(WeightsType)
# Token ids of texts, and of the sources of translations.
Texts = Sequence[np.ndarray]
Sources = Sequence[np.ndarray | None]


@dataclass(frozen=True)
class Tolerance:
    """How much an export with one kind of weights may differ from its source.

    Attributes:
      logits: largest difference of a logit, as a share of the largest logit, or of 1 if that is smaller.
      bits_per_byte: largest relative difference of the bits per byte.
      gap: largest `second_largest_gap` of formats whose logits cannot be compared; None: twice the limit
        of the logits.
    """

    logits: float | None
    bits_per_byte: float
    gap: float | None = None


# docs/certificates.md describes them.
TOLERANCES = {
    "float32": Tolerance(logits=1e-3, bits_per_byte=1e-4),
    "float16": Tolerance(logits=2e-2, bits_per_byte=1e-3),
    "int8": Tolerance(logits=None, bits_per_byte=5e-3, gap=1.0),
}


class ExportSource:
    """A run, and its best model and tokenizer, which are loaded when they are first needed.

    `with_text`: whether the export contains the training text, in a format that `holds_text`.
    """

    def __init__(self, run: "Run", with_text: bool = False) -> None:
        self.run = run
        self.with_text = with_text

    @cached_property
    def model(self) -> Any:
        return self.run.load_model()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self.run.load_tokenizer()


@dataclass(frozen=True)
class Opened:
    """An exported file or folder, opened with the packages that its users have.

    Attributes:
      encode: lines → the token ids of each.
      continue_greedily: (prompts, maximum number of new tokens) → the most probable continuation of each
        prompt, or its translation: a text, or its ids if `gives_ids`.
      packages: the packages that read the format, for the versions in the certificate.
      weights: how matrices are stored. It decides the tolerance.
      max_len: the context; None if the export does not say it.
      logits: (texts, sources) → for each text, int32[T], the scores of every next token, float32[T, V]. The
        source is that of a translation, int32[S], end token included, or None. None: the format has none.
      decode: (ids of a prompt, new ids) → the text that the new ids add, without the end token; None if
        only whole texts are read.
      gives_ids: whether continuations are ids. Libraries show bytes that are not UTF-8, which models also
        generate, in different ways.
      learned_steps: the steps by which its weights were changed after the export.
      answer: as `continue_greedily`, for questions; None if the format or the model has no dialogues.
    """

    encode: Callable[[Sequence[str]], list[list[int]]]
    continue_greedily: Callable[[Sequence[str], int], list[Any]]
    packages: tuple[str, ...]
    weights: WeightsType = "float32"
    max_len: int | None = None
    logits: Callable[[Texts, Sources], Iterator[np.ndarray]] | None = None
    decode: Callable[[Sequence[int], Sequence[int]], str] | None = None
    gives_ids: bool = False
    learned_steps: int = 0
    answer: Callable[[Sequence[str], int], list[str]] | None = None


class Target(abc.ABC):
    """A format of an export: a file or folder that other programs read.

    The module of a target imports TensorFlow, and the packages of its format, in its methods only.

    Attributes:
      name: its name, the value of `--format`.
      weights: the ways in which it can store matrices.
      packages: the modules that it needs, of the extra with its name.
      only_gpt: whether it supports only decoders.
      keeps_precision: whether it computes in the precision used for training; others compute in float32.
      holds_text: whether it can contain the training text.
    """

    name: ClassVar[str]
    is_folder: ClassVar[bool]
    weights: ClassVar[tuple[WeightsType, ...]] = ("float32",)
    packages: ClassVar[tuple[str, ...]] = ()
    only_gpt: ClassVar[bool] = False
    keeps_precision: ClassVar[bool] = False
    holds_text: ClassVar[bool] = False

    def problem(self, config: TransformerConfig, tokenizer: Tokenizer) -> str | None:
        """Returns in one line what the format cannot express of a model; None if it can express all."""
        is_other = self.only_gpt and config.kind != "gpt"
        return f"the model is a {config.kind}; should be a gpt" if is_other else None

    def ignored_settings(self, sampling: SamplingConfig) -> list[str]:
        """Returns a line for each setting of `[sampling]` that has an effect, but not in the export."""
        return []

    @abc.abstractmethod
    def write(self, source: ExportSource, path: Path, weights: WeightsType) -> None:
        """Writes the best model of a run that has no `problem` to an empty folder, or as a new file.

        Raises:
          UserError: the run has no model.
          OSError: a file cannot be written.
        """

    @abc.abstractmethod
    def recognizes(self, path: Path, beginning: bytes) -> bool:
        """Returns whether a file, from its first bytes, or a folder has this format."""

    @abc.abstractmethod
    def open(self, path: Path) -> Opened:
        """Opens what `write` has written, with the packages that the users of the format have."""

    def check_packages(self) -> None:
        """Raises a `UserError` if a package that the format needs is not installed."""
        absent = [package for package in self.packages if find_spec(package) is None]
        if absent:
            problem = f"{', '.join(absent)} not installed: {install_command(self.name)}"
            raise UserError(ArgumentProblem("format", self.name, problem))


@functools.cache
def target_named(name: str) -> Target:
    """Returns the target with a name, a key of `TARGETS`."""
    module, _, cls = f"{__package__}.{TARGETS[name]}".rpartition(".")
    target: Target = getattr(importlib.import_module(module), cls)()
    return target


def target_of(path: Path) -> Target:
    """Returns the target of an exported file or folder; a `UserError` if it has no known format."""
    beginning = b""
    if not path.is_dir():
        try:
            with path.open("rb") as file:
                beginning = file.read(16)
        except OSError as error:
            raise UserError(ArgumentProblem("path", path, error.strerror or str(error))) from None
    for name in TARGETS:
        if (target := target_named(name)).recognizes(path, beginning):
            return target
    raise UserError(ArgumentProblem("path", path, f"is none of the formats {', '.join(TARGETS)}"))
