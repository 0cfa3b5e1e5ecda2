"""Opened: an exported model, as a certificate compares it with its run."""

import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from minigpt.targets.documents import DocumentedTokenizer
    from minigpt.targets.targets import WeightsType

Texts = Sequence[np.ndarray]
Sources = Sequence[np.ndarray | None]
Caches = dict[str, np.ndarray]
# (token ids, position of the first of them, caches of those before) → the logits of the token after them,
# float32[V], and the caches with them.
Step = Callable[[Sequence[int], int, Caches], tuple[np.ndarray, Caches]]


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


def opened_step(
    step: Step,
    empty_caches: Caches,
    tokenizer: "DocumentedTokenizer",
    package: str,
    logits: Callable[[np.ndarray], np.ndarray] | None = None,
    text_graph: Opened | None = None,
) -> Opened:
    """Returns an export whose users run the decoding loop.

    Args:
      step: one pass.
      empty_caches: the caches of an empty text.
      tokenizer: the tokenizer and the settings among the files.
      package: the package that runs the model.
      logits: scores a whole text; None: token by token.
      text_graph: see `Opened`.
    """
    settings = tokenizer.settings

    def stepped_logits(ids: np.ndarray) -> np.ndarray:
        caches, rows = empty_caches, []
        for position, token in enumerate(ids.tolist()):
            row, caches = step([token], position, caches)
            rows.append(row)
        return np.stack(rows)

    def all_logits(texts: Texts, sources: Sources) -> Iterator[np.ndarray]:
        return map(logits or stepped_logits, texts)

    def new_ids(prompt: Sequence[int], max_new_tokens: int) -> list[int]:
        ids, new = list(prompt) or [settings["end_id"]], list[int]()
        scores, caches = step(ids, 0, empty_caches)
        while True:
            scores[settings["undrawable_ids"]] = -np.inf
            token = int(scores.argmax())
            if token == settings["end_id"]:
                return new
            new.append(token)
            if len(new) == max_new_tokens:
                return new
            scores, caches = step([token], len(ids) + len(new) - 1, caches)

    def continue_greedily(prompts: Sequence[str], max_new_tokens: int) -> list[str]:
        read = tokenizer.encode(prompts)
        return [tokenizer.continuation(ids, new_ids(ids, max_new_tokens)) for ids in read]

    return Opened(
        tokenizer.encode,
        continue_greedily,
        (package, *tokenizer.packages),
        settings["weights"],
        settings["max_len"],
        all_logits,
        tokenizer.continuation,
        new_ids,
        text_graph,
    )
