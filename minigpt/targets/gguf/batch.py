"""Several texts that an engine continues together. Needs NumPy and wasmtime only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from minigpt.targets.gguf.instance import Engine
from minigpt.targets.gguf.settings import Settings

# Results of a step other than tokens.
ENDED, NOTHING_NEW = -1, -2
# The layout of `Choice` in choices.h.
_GUESSES = 10
_CHOICE = np.dtype(
    [("probability", "<f4"), ("ids", "<i4", _GUESSES), ("probabilities", "<f4", _GUESSES)]
)


@dataclass(frozen=True)
class Choice:
    """The probabilities from which a token was chosen, those of the model: temperature 1, nothing banned.

    Attributes:
      probability: that of the chosen token.
      ids: the most probable tokens, at most 10, the most probable one first.
      probabilities: those of `ids`.
    """

    probability: float
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]


class BatchEngine(Engine):
    """An engine that continues several texts together. Texts begin and end at any time.

    A text gets the same tokens, whatever the engine continues together with it.
    """

    def open_batch(self, slots: int, most_tokens: int) -> None:
        """Takes the memory for texts.

        Args:
          slots: how many texts.
          most_tokens: the maximum number of tokens of a text: prompt, at least 1, and new tokens.
        Raises:
          UserError: there is not enough memory, or the model does not continue text.
        """
        self._checked("open_batch", slots, most_tokens)
        self._slots = slots

    def start_slot(
        self,
        slot: int,
        ids: Sequence[int] | np.ndarray,
        settings: Settings,
        seed: int,
        *,
        biases: Mapping[int, float] | None = None,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        records: bool = False,
    ) -> None:
        """Starts a text in place of the one that is in a slot.

        Args:
          slot: the number of the slot.
          ids: the prompt.
          settings: how the text is continued; without stop strings and beams.
          seed: the seed of its draws.
          biases: token → what is added to its logit; -inf bans it.
          frequency_penalty: subtracted from the logit of a token for each time it was added.
          presence_penalty: subtracted from the logit of a token that was added.
          records: whether `choice` is called.
        Raises:
          UserError: a token is outside the vocabulary, or the text would be too long.
        """
        mark = self._call("memory_mark")
        self._checked(
            "start_slot",
            slot,
            *self._write_ids(ids),
            settings.max_new_tokens,
            *settings.numbers,
            seed,
        )
        added = {**(biases or {}), **dict.fromkeys(settings.banned_tokens, -np.inf)}
        if added:
            address, count = self._write_ids(list(added))
            values, _ = self._write(np.array(list(added.values()), "<f4").tobytes())
            self._checked("bias_slot", slot, address, values, count)
        self._call("release_to", mark)
        self._checked("penalize_slot", slot, frequency_penalty, presence_penalty)
        if records:
            self._checked("record_slot", slot)

    def step(self) -> list[int]:
        """Adds a token to each text whose prompt has been read, and reads a part of the other prompts.

        Returns:
          For each slot: the new token, `ENDED`, or `NOTHING_NEW`.
        """
        address = self._checked("step_batch")
        return self._view(address, 4 * self._slots).view("<i4").tolist()

    def choice(self, slot: int) -> Choice:
        """Returns the probabilities from which the newest token of a text was chosen."""
        address = self._checked("slot_choice", slot)
        return _choices(self._view(address, _CHOICE.itemsize))[0]

    def close_slot(self, slot: int) -> None:
        """Ends the text in a slot."""
        self._call("close_slot", slot)

    def describe(self, ids: Sequence[int] | np.ndarray) -> list[Choice]:
        """Returns the probabilities of the next token at each position of a text.

        Args:
          ids: int32[T], T ≤ max_len. `probability` at the last position, which has no next token, is 0.
        """
        if not len(ids):
            return []
        self._call("finish")
        address = self._checked("describe_text", *self._write_ids(ids))
        found = _choices(self._view(address, _CHOICE.itemsize * len(ids)).copy())
        self._call("finish")
        return found


def _choices(data: np.ndarray) -> list[Choice]:
    found = []
    for probability, ids, probabilities in data.view(_CHOICE).tolist():
        count = sum(i >= 0 for i in ids)  # A small vocabulary has fewer tokens.
        found.append(Choice(probability, tuple(ids[:count]), tuple(probabilities[:count])))
    return found
