"""Checks of the arguments that all text models have."""

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from minigpt.errors import ArgumentProblem, UserError, as_integer

# That of `sampling.beams`.
MAX_BEAMS = 1000


def seeds_of(seed: Any, count: int) -> list[int]:
    """Returns `count` seeds from one integer or from a sequence of them.

    Raises:
      TypeError: a seed is not an integer.
      ValueError: their number is neither 1 nor `count`.
    """
    seeds = np.asarray(seed)
    if seeds.size and seeds.dtype.kind not in "iu":
        raise TypeError(f"`seed` must be one integer or one per prompt. Received: {seed!r}")
    if seeds.ndim == 0:
        return [int(seeds)] * count
    if seeds.shape != (count,):
        raise ValueError(
            "`seed` must be one integer or one per prompt. "
            f"Received: seeds of shape {seeds.shape} for {count} prompts"
        )
    return seeds.tolist()


def check_seeds(seeds: Sequence[int], num_samples: int) -> None:
    """Raises a `UserError` if a number of samples or a seed cannot be used; sample i uses seed + i."""
    problems = []
    if num_samples < 1:
        problems.append(ArgumentProblem("num_samples", num_samples, "should be at least 1"))
    limit = 2**31 - num_samples
    problem = f"should be from 0 to {limit}, because sample i uses seed + i"
    problems += [ArgumentProblem("seed", seed, problem) for seed in seeds if not 0 <= seed <= limit]
    if problems:
        raise UserError(*problems)


def check_search(beams: Any, length_penalty: Any) -> None:
    """Checks the arguments of a beam search.

    Raises:
      TypeError: one is not a number.
      ValueError: one is out of range.
    """
    if as_integer("beams", beams, 1) > MAX_BEAMS:
        raise ValueError(f"`beams` must be at most {MAX_BEAMS}. Received: {beams}")
    if not isinstance(length_penalty, int | float | np.integer | np.floating):
        raise TypeError(f"`length_penalty` must be a number. Received: {length_penalty!r}")
    if not -1e30 <= length_penalty <= 1e30:
        raise ValueError(f"`length_penalty` must be from -1e30 to 1e30. Received: {length_penalty}")


def translation_limit(max_new_tokens: Any, max_len: int) -> int:
    """Returns the largest number of tokens of a translation.

    Raises:
      TypeError: `max_new_tokens` is neither an integer nor None.
      ValueError: it is less than 0.
    """
    if max_new_tokens is None:
        return max_len
    return min(as_integer("max_new_tokens", max_new_tokens, 0), max_len)


def as_token_ids(token_ids: Any, max_len: int, vocab_size: int) -> np.ndarray:
    """Returns token ids as int32[B, T].

    Raises:
      TypeError: the ids are not integers.
      ValueError: their shape is not [B, T] with T ≤ max_len, or an id is outside the vocabulary.
    """
    try:
        ids = np.asarray(token_ids)
    except ValueError:
        raise ValueError(
            f"`token_ids` must have rows of the same length. Received: {reprlib.repr(token_ids)}"
        ) from None
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"`token_ids` must be integers. Received: an array of {ids.dtype}")
    if ids.ndim != 2 or ids.shape[1] > max_len:
        raise ValueError(
            f"`token_ids` must have the shape [B, T] with T ≤ max_len = {max_len}. "
            f"Received: shape {ids.shape}"
        )
    if ids.size and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise ValueError(
            f"`token_ids` must be from 0 to {vocab_size - 1}. Received: ids from "
            f"{ids.min()} to {ids.max()}"
        )
    return ids.astype(np.int32)
