"""Batches of token windows; each batch is a pure function of (seed, step).

A pass over the text cuts it into adjacent windows. Their common offset changes from pass to pass, and
so does their pseudo-random order. Row j of step s is window s·B + j of an endless sequence of passes.
Training can therefore resume at any step without saved iterator state.
"""

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from minigpt.errors import UserError


def windows_in_pass(n_tokens: int, max_len: int) -> int:
    """Returns how many windows of `max_len` targets fit into `n_tokens` targets at every offset."""
    return max(0, (n_tokens - (max_len - 1)) // max_len)


def check_fills_batch(
    n_tokens: int, max_len: int, batch_size: int, text: str = "the training text"
) -> None:
    """Raises a `UserError`, which names the text, if `n_tokens` have fewer windows than a batch."""
    if windows_in_pass(n_tokens, max_len) < batch_size:
        raise UserError(
            f"{text}: {n_tokens:,} tokens are available for training; training.batch_size = "
            f"{batch_size} windows of {max_len} tokens need at least {(batch_size + 1) * max_len - 1:,}"
        )


def training_batch(
    ids: np.ndarray,
    max_len: int,
    batch_size: int,
    seed: int,
    step: int,
    weights: Sequence[float] | None = None,
    ends: Sequence[int] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the batch of one step.

    With weights there are no passes. Every window is drawn independently: its text with a probability in
    proportion to the weight, and its first token uniformly from those with `max_len` targets in the text.

    Args:
      ids: uint16 or uint32[n + 1], usually memory-mapped.
      seed: non-negative.
      step: non-negative, of any size.
      weights: one for each of several texts in `ids`; None for one text.
      ends: the position in `ids` of the last end token of each of these texts.
    Returns:
      inputs and targets, int32[B, T]; targets are the inputs shifted by one token.
    """
    windows = windows_in_pass(len(ids) - 1, max_len)
    starts = np.empty(batch_size, np.int64)
    row = 0
    if weights:
        draws, places = np.random.PCG64([seed, int(step)]).random_raw(2 * batch_size).reshape(2, -1)
        # The upper 53 bits, as a number below 1.
        shares = np.cumsum(weights)[:-1] / sum(weights)
        texts = np.searchsorted(shares, (draws >> np.uint64(11)) * 2.0**-53, side="right")
        begins = np.array([0, *ends[:-1]])
        possible = (np.array(ends) - begins - max_len + 1).astype(np.uint64)
        starts = begins[texts] + (places % possible[texts]).astype(np.int64)
        row = batch_size
    while row < batch_size:
        # Python integers do not overflow.
        pass_index, position = divmod(int(step) * batch_size + row, windows)
        count = min(batch_size - row, windows - position)
        draw, order = _pass_order(seed, pass_index, windows)
        chosen = order[position : position + count].astype(np.int64)
        starts[row : row + count] = chosen * max_len + draw % max_len
        row += count
    # A plain array view avoids the overhead of memmap for every derived array.
    drawn = ids.view(np.ndarray)[starts[:, None] + np.arange(max_len + 1)].astype(np.int32)
    return drawn[:, :-1], drawn[:, 1:]


# Two entries, because a batch can span the end of a pass.
@functools.lru_cache(maxsize=2)
def _pass_order(seed: int, pass_index: int, windows: int) -> tuple[int, np.ndarray]:
    """Returns a random number for the offset of a pass, and the order of its windows, uint32[windows]."""
    # The raw stream of a bit generator is the same in every version of NumPy.
    raw = np.random.PCG64([seed, pass_index]).random_raw(1 + windows)
    return int(raw[0]), np.argsort(raw[1:], kind="stable").astype(np.uint32)


def eval_windows(
    ids: np.ndarray, max_len: int, batch_size: int, stride: int | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yields windows in which every target counts exactly once.

    Args:
      ids: uint16 or uint32[n + 1] token ids.
      max_len: T, targets in a window.
      batch_size: B.
      stride: targets between the beginnings of two windows, 1 to T. Where windows overlap, a target counts
        in the one that has the most tokens before it. None for T: adjacent windows.
    Yields:
      inputs int32[B, T], targets int32[B, T], weights float32[B, T]: 1 for the targets that count, else 0.
      What is missing at the end has id 0 and weight 0.
    """
    n_tokens, stride = len(ids) - 1, stride or max_len
    overlap = max_len - stride
    starts = range(0, max(min(1, n_tokens), n_tokens - overlap), stride)
    for first in range(0, len(starts), batch_size):
        inputs = np.zeros((batch_size, max_len), np.int32)
        targets, weights = np.zeros_like(inputs), np.zeros(inputs.shape, np.float32)
        for row, start in enumerate(starts[first : first + batch_size]):
            size = min(max_len, n_tokens - start)
            inputs[row, :size] = ids[start : start + size]
            targets[row, :size] = ids[start + 1 : start + size + 1]
            weights[row, overlap if start else 0 : size] = 1
        yield inputs, targets, weights


# Those of the passes in use: of pairs, one order for each bucket and one for the batches.
@functools.lru_cache(maxsize=64)
def shuffled(size: int, *key: int) -> np.ndarray:
    """Returns a pseudo-random permutation, int64[size]; the key is the seed, the pass and others."""
    # The raw stream of a bit generator is the same in every version of NumPy.
    raw = np.random.PCG64(key).random_raw(size)
    return np.argsort(raw, kind="stable")
