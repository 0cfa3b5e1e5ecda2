"""ExportedModel: what a certificate needs of an exported model, whatever its format."""

import abc
import importlib.metadata
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from minigpt.targets.targets import WeightsType


class ExportedTexts(abc.ABC):
    """What maps texts to token ids and to continuations."""

    @abc.abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each line."""

    @abc.abstractmethod
    def continue_greedily(self, prompts: Sequence[str], max_new_tokens: int) -> list[str]:
        """Returns the most probable continuation of each prompt, or its translation, token by token."""


class ExportedModel(ExportedTexts):
    """An exported file or folder, opened with the packages that its users have.

    A subclass reads one format; see `Target.open`.

    Args:
      path: the file or folder.
    Attributes:
      packages: the packages that read the format, for the versions in the certificate.
      has_logits: whether `logits` can be called.
      weights: how matrices are stored: "float32", "float16" or "int8". It decides the tolerance.
      max_len: the context; None if the export does not say it.
      text_graph: a second file of the export, from prompts to texts; None if there is none.
    """

    packages: tuple[str, ...]
    has_logits: bool = True
    weights: WeightsType = "float32"
    max_len: int | None = None
    text_graph: ExportedTexts | None = None

    @abc.abstractmethod
    def __init__(self, path: Path) -> None: ...

    @abc.abstractmethod
    def logits(self, token_ids: np.ndarray, source_ids: np.ndarray | None = None) -> np.ndarray:
        """Scores every next token of a text, or of a translation.

        Args:
          token_ids: int32[T], T ≤ max_len.
          source_ids: int32[S], of an encoder-decoder: the source, end token included.
        Returns:
          float32[T, V].
        """

    def all_logits(
        self, texts: Sequence[np.ndarray], sources: Sequence[np.ndarray | None]
    ) -> Iterator[np.ndarray]:
        """Yields `logits` of each text, in order. A subclass may compute several at a time.

        Args:
          texts: the token ids of each.
          sources: the source of each; None for one that is not a translation.
        """
        for token_ids, source_ids in zip(texts, sources, strict=True):
            yield self.logits(token_ids, source_ids)

    def versions(self) -> dict[str, str]:
        """Returns the version of each package."""
        return {name: importlib.metadata.version(name) for name in self.packages}
