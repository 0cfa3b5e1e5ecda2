"""Opened: an exported model, as a certificate compares it with its run."""

import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from minigpt.targets.targets import WeightsType

Texts = Sequence[np.ndarray]
Sources = Sequence[np.ndarray | None]


@dataclass(frozen=True)
class Opened:
    """An exported file or folder, opened with the packages that its users have.

    Attributes:
      encode: lines → the token ids of each.
      continue_greedily: (prompts, maximum number of new tokens) → the most probable continuation of each
        prompt, or its translation, token by token.
      packages: the packages that read the format, for the versions in the certificate.
      weights: how matrices are stored. It decides the tolerance.
      max_len: the context; None if the export does not say it.
      logits: (texts, sources) → for each text, int32[T], the scores of every next token, float32[T, V]. The
        source is that of a translation, int32[S], end token included; None for a text. None if the format
        gives no logits.
      decode: (ids of a prompt, new ids) → the text that the new ids add, without the end token; None if
        only whole texts are read.
      new_ids: (ids of a prompt, maximum number of new tokens) → the ids of the most probable continuation;
        None if the format continues texts itself.
      text_graph: a second file of the export, from prompts to texts.
    """

    encode: Callable[[Sequence[str]], list[list[int]]]
    continue_greedily: Callable[[Sequence[str], int], list[str]]
    packages: tuple[str, ...]
    weights: "WeightsType" = "float32"
    max_len: int | None = None
    logits: Callable[[Texts, Sources], Iterator[np.ndarray]] | None = None
    decode: Callable[[Sequence[int], Sequence[int]], str] | None = None
    new_ids: Callable[[Sequence[int], int], list[int]] | None = None
    text_graph: "Opened | None" = None

    def versions(self) -> dict[str, str]:
        """Returns the version of each package."""
        return {name: importlib.metadata.version(name) for name in self.packages}
