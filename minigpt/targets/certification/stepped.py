"""SteppedModel: an exported model whose users run the decoding loop."""

import abc
from collections.abc import Sequence

import numpy as np

from minigpt.targets.certification.exported import ExportedModel
from minigpt.targets.documents import DocumentedTokenizer

Caches = dict[str, np.ndarray]


class SteppedModel(ExportedModel):
    """An export that scores tokens, given the caches of the tokens before.

    Attributes:
      tokenizer: the tokenizer among its files.
      empty_caches: the caches of an empty text by name.
    """

    tokenizer: DocumentedTokenizer
    empty_caches: Caches

    @abc.abstractmethod
    def step(self, ids: Sequence[int], position: int, caches: Caches) -> tuple[np.ndarray, Caches]:
        """Scores the token after some tokens of a text.

        Args:
          ids: the tokens.
          position: of the first of them.
          caches: those of the tokens before.
        Returns:
          float32[V], the logits; and the caches with these tokens.
        """

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self.tokenizer.encode(lines)

    def continue_greedily(self, prompts: Sequence[str], max_new_tokens: int) -> list[str]:
        found = self.continue_greedily_in_ids(prompts, max_new_tokens)
        return [self.tokenizer.continuation(ids, new) for ids, new in found]

    def continue_greedily_in_ids(
        self, prompts: Sequence[str], max_new_tokens: int
    ) -> list[tuple[list[int], list[int]]]:
        """Returns the ids of each prompt and of its most probable continuation, token by token."""
        return [(ids, self._new_ids(ids, max_new_tokens)) for ids in self.encode(prompts)]

    def _new_ids(self, prompt: Sequence[int], max_new_tokens: int) -> list[int]:
        settings = self.tokenizer.settings
        ids, new = list(prompt) or [settings["end_id"]], list[int]()
        logits, caches = self.step(ids, 0, self.empty_caches)
        while True:
            logits[settings["undrawable_ids"]] = -np.inf
            token = int(logits.argmax())
            if token == settings["end_id"]:
                return new
            new.append(token)
            if len(new) == max_new_tokens:
                return new
            logits, caches = self.step([token], len(ids) + len(new) - 1, caches)
