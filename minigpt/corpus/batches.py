"""Batches of token windows; each batch is a pure function of (seed, step).

A pass over the text cuts it into adjacent windows. Their common offset changes from pass to pass, and
so does their pseudo-random order. Row j of step s is window s·B + j of an endless sequence of passes.
Training can therefore resume at any step without saved iterator state.
"""

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from minigpt.errors import UserError

# The order of up to this many windows is stored. With another value, runs on larger texts would have other
# batches.
MAX_STORED_ORDER = 2**24


def windows_in_pass(n_tokens: int, max_len: int) -> int:
    """Returns how many windows of `max_len` targets fit into `n_tokens` targets at every offset."""
    return max(0, (n_tokens - (max_len - 1)) // max_len)


def check_fills_batch(
    n_tokens: int,
    max_len: int,
    batch_size: int,
    *,
    length_setting: str = "model.max_len",
    text: str = "the training text",
) -> None:
    """Checks that a text has enough tokens for one batch.

    Args:
      n_tokens: tokens of the training text.
      max_len: targets in a window.
      batch_size: windows in a batch.
      length_setting: the setting that determines `max_len`, for the message.
      text: the text's name, for the message.
    Raises:
      UserError: there are fewer windows than rows in a batch.
    """
    if windows_in_pass(n_tokens, max_len) < batch_size:
        raise UserError(
            f"{text}: {n_tokens:,} tokens are available for training; training.batch_size = "
            f"{batch_size} windows of {length_setting} = {max_len} tokens need at least "
            f"{(batch_size + 1) * max_len - 1:,}: lower training.batch_size or {length_setting}, "
            "or add text"
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
    rows = ids.view(np.ndarray)[starts[:, None] + np.arange(max_len + 1)].astype(np.int32)
    return rows[:, :-1], rows[:, 1:]


# Two entries, because a batch can span the end of a pass.
@functools.lru_cache(maxsize=2)
def _pass_order(seed: int, pass_index: int, windows: int) -> "tuple[int, np.ndarray | Permutation]":
    """Returns a random number for the offset of a pass, and a permutation of its windows.

    The permutation of more than `MAX_STORED_ORDER` windows is computed for each batch: it would need 16
    bytes of memory for each window.
    """
    # The raw stream of a bit generator is the same in every version of NumPy.
    generator = np.random.PCG64([seed, pass_index])
    if windows > MAX_STORED_ORDER:
        raw = generator.random_raw(KEYS + 1)
        return int(raw[0]), Permutation(windows, raw[1:])
    raw = generator.random_raw(windows + 1)
    order = np.argsort(raw[1:], kind="stable")
    return int(raw[0]), order.astype(np.uint32)


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


_ROUNDS = 8
# Numbers of random bits that the keys of a permutation need.
KEYS = _ROUNDS
# The odd multipliers of SplitMix64 (Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number
# Generators").
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Permutation:
    """A permutation of the numbers below a size, the same for the same keys.

    A number is divided into two halves of bits. In each round, one half is combined with a function of the
    other one by exclusive or, which can be undone: a Feistel network (Luby and Rackoff 1988, "How to
    Construct Pseudorandom Permutations from Pseudorandom Functions"). It permutes the numbers of a whole
    number of bits. A result that is too large is permuted again until it is below the size: cycle walking
    (Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains"). On average, this takes fewer than two
    times.

    Args:
      size: 1 ≤ size ≤ 2**62.
      keys: uint64[KEYS], random.
    """

    def __init__(self, size: int, keys: np.ndarray) -> None:
        if not 1 <= size <= 2**62:
            raise ValueError(f"size = {size}: should be from 1 to 2**62")
        if len(keys) != KEYS:
            raise ValueError(f"{len(keys)} keys; expected {KEYS}")
        self._size = size
        self._keys = keys.astype(np.uint64)
        bits = max(2, (size - 1).bit_length())
        self._low_bits = np.uint64(bits // 2)
        self._low_mask = np.uint64(2 ** (bits // 2) - 1)
        self._high_mask = np.uint64(2 ** (bits - bits // 2) - 1)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, positions: slice | np.ndarray) -> np.ndarray:
        """Returns the numbers at some positions, int64.

        Args:
          positions: a slice with a step of 1, or int[n], non-negative and below the size.
        """
        if isinstance(positions, slice):
            positions = np.arange(*positions.indices(self._size))
        found = self._permute(positions.astype(np.uint64))
        while (outside := np.flatnonzero(found >= np.uint64(self._size))).size:
            found[outside] = self._permute(found[outside])
        return found.astype(np.int64)

    def _permute(self, numbers: np.ndarray) -> np.ndarray:
        high, low = numbers >> self._low_bits, numbers & self._low_mask
        for index, key in enumerate(self._keys):
            if index % 2:
                low = low ^ (_mix(high, key) & self._low_mask)
            else:
                high = high ^ (_mix(low, key) & self._high_mask)
        return (high << self._low_bits) | low


def _mix(half: np.ndarray, key: np.uint64) -> np.ndarray:
    """Returns the finalizer of SplitMix64 of each number and a key."""
    mixed = half ^ key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))
