"""Pseudo-random permutations that are computed and not stored."""

import numpy as np

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
