"""Checks of the arguments that all text models have."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigpt.errors import ArgumentProblem, UserError


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


def as_token_ids(token_ids: Any, max_len: int, vocab_size: int) -> np.ndarray:
    """Returns token ids as int32[B, T].

    Raises:
      TypeError: the ids are not integers.
      ValueError: their shape is not [B, T] with T ≤ max_len, or an id is outside the vocabulary.
    """
    ids = np.asarray(token_ids)
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
