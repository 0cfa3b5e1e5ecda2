"""Judges greedy texts of an export by the logits of its source, without generating texts of the source."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minigpt.targets.certification.readers.text_model import OpenedModel


class Judgment(NamedTuple):
    """What the source says about a text.

    Attributes:
      is_greedy: whether the source certainly generates this text: each token is the only most probable one
        after those before it. False if that is not certain.
      gap: how far a token is from being the most probable one: the largest difference between the largest
        logit and the logit of the token. If two tokens are almost equally probable, an export may choose
        the other one.
    """

    is_greedy: bool
    gap: float


def judge_continuations(
    source: OpenedModel,
    prompts: Sequence[str],
    texts: Sequence[str],
    end_id: int,
    new_tokens: int,
    max_len: int,
) -> list[Judgment]:
    """Judges continuations of prompts.

    Args:
      source: the model.
      prompts: one for each text.
      texts: the continuations.
      end_id: the end token.
      new_tokens: a shorter continuation is followed by an end token.
      max_len: the context. What is beyond it is not judged.
    """
    read = source.encode(prompts)
    encoded = source.encode([prompt + text for prompt, text in zip(prompts, texts, strict=True)])
    # An empty prompt is read as an end token.
    rows = [ids if prompt else [end_id, *ids] for prompt, ids in zip(read, encoded, strict=True)]
    starts = [len(prompt) or 1 for prompt in read]
    rows = _ended(rows, starts, end_id, new_tokens)
    cut = [np.array(ids[: max_len + 1], np.int32) for ids in rows]
    scored = source.all_logits([ids[:-1] for ids in cut], [None] * len(cut))
    judged = []
    for prompt, text, ids, start, seen, logits in zip(
        read, texts, rows, starts, cut, scored, strict=True
    ):
        logits, new = logits[start - 1 :], ids[start:]
        chosen = logits[np.arange(len(logits)), seen[start:]]
        is_greedy = (
            # Of equal logits, a graph may choose another one than NumPy.
            bool(((logits >= chosen[:, None]).sum(1) == 1).all())
            and len(new) <= new_tokens
            and len(seen) == len(ids)
            # The text may be split into other tokens than those that were generated.
            and ids[:start] == (prompt or [end_id])
            and source.decode_new(prompt, new[:-1] if new[-1:] == [end_id] else new) == text
        )
        judged.append(Judgment(is_greedy, _gap(logits, chosen)))
    return judged


def judge_translations(
    source: OpenedModel,
    prompts: Sequence[str],
    texts: Sequence[str],
    end_id: int,
    new_tokens: int,
    max_len: int,
    start_id: int,
) -> list[Judgment]:
    """Measures the gaps of translations. `is_greedy` is always False.

    Arguments are those of `judge_continuations`, and the token before the first one of a target.
    """
    rows = [[start_id, *ids] for ids in source.encode(texts)]
    rows = _ended(rows, [1] * len(rows), end_id, new_tokens)
    cut = [np.array(ids[: max_len + 1], np.int32) for ids in rows]
    sources = [np.array([*ids[: max_len - 1], end_id], np.int32) for ids in source.encode(prompts)]
    scored = source.all_logits([ids[:-1] for ids in cut], sources)
    return [
        Judgment(False, _gap(logits, logits[np.arange(len(logits)), ids[1:]]))
        for ids, logits in zip(cut, scored, strict=True)
    ]


def _ended(
    rows: list[list[int]], starts: list[int], end_id: int, new_tokens: int
) -> list[list[int]]:
    """Adds the end token to the rows that have less than `new_tokens` tokens from their start."""
    return [
        ids if len(ids) - start >= new_tokens else [*ids, end_id]
        for ids, start in zip(rows, starts, strict=True)
    ]


def _gap(logits: np.ndarray, chosen: np.ndarray) -> float:
    return float((logits.max(1) - chosen).max(initial=0))
