"""Token ids in several memory-mapped files that are read as one array."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class ShardedIds(np.lib.mixins.NDArrayOperatorsMixin):
    """A read-only array of one dimension over several arrays, the shards, one after the other.

    Has what the package uses of an array: `len`, `dtype`, `shape`, `nbytes`, integers, arrays of integers
    and slices as indices, comparisons, `astype`, and conversion with `np.asarray`. A slice copies nothing
    as long as it is not converted. Everything else converts the whole array, which reads all of it into
    memory.

    Args:
      shards: arrays of one dimension and the same type; at least one.

    Attributes:
      shards: the arrays that are not empty, or the first one.
    """

    # The number of dimensions, as of an array.
    ndim = 1

    def __init__(self, shards: Sequence[np.ndarray]) -> None:
        # A plain array view avoids the overhead of memmap for every derived array.
        plain = [shard.view(np.ndarray) for shard in shards]
        self.shards = [shard for shard in plain if len(shard)] or plain[:1]
        # Position of the first id of each shard, and after them the number of ids, int64.
        self._begins = np.cumsum([0, *map(len, self.shards)])
        self.dtype = self.shards[0].dtype

    def __len__(self) -> int:
        return int(self._begins[-1])

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    @property
    def size(self) -> int:
        return len(self)

    @property
    def nbytes(self) -> int:
        return len(self) * self.dtype.itemsize

    def __getitem__(self, index: Any) -> Any:
        """Returns an id for an integer, an array for an array of integers, and for a slice a part.

        A slice with a step of 1 is an array if it is within one shard, otherwise a `ShardedIds`.
        """
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self._take(np.arange(start, stop, step))
            return self._slice(start, max(start, stop))
        indices = np.asarray(index)
        if indices.dtype == bool:
            return np.asarray(self)[indices]
        taken = self._take(indices)
        return taken if indices.ndim else taken[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("ids in several shards cannot be one array without a copy")
        joined = np.concatenate(self.shards)
        return joined if dtype is None else joined.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(x) if isinstance(x, ShardedIds) else x for x in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def astype(self, dtype: Any) -> np.ndarray:
        """Returns a new array of another type."""
        return np.asarray(self, dtype)

    def view(self, kind: type) -> "ShardedIds":
        """Returns itself: the shards are plain arrays already."""
        if kind is not np.ndarray:
            raise TypeError(f"view: expected numpy.ndarray. Received: {kind}")
        return self

    def positions_of(self, token: int) -> np.ndarray:
        """Returns where a token is, int64, ascending. Reads one shard after the other."""
        found = [
            np.flatnonzero(shard == token) + begin
            for shard, begin in zip(self.shards, self._begins, strict=False)
        ]
        return np.concatenate(found)

    def _slice(self, start: int, stop: int) -> "np.ndarray | ShardedIds":
        first = int(np.searchsorted(self._begins[:-1], start, side="right")) - 1
        last = max(first + 1, int(np.searchsorted(self._begins[:-1], stop, side="left")))
        parts = [
            self.shards[shard][max(0, start - self._begins[shard]) : stop - self._begins[shard]]
            for shard in range(first, last)
        ]
        return parts[0] if len(parts) == 1 else ShardedIds(parts)

    def _take(self, indices: np.ndarray) -> np.ndarray:
        flat = indices.ravel().astype(np.int64, casting="same_kind")
        if len(flat) and not (-len(self) <= flat.min() and flat.max() < len(self)):
            raise IndexError(f"an index is out of bounds of {len(self)} ids")
        flat = np.where(flat < 0, flat + len(self), flat)
        shard_of = np.searchsorted(self._begins, flat, side="right") - 1
        taken = np.empty(len(flat), self.dtype)
        for shard in np.flatnonzero(np.bincount(shard_of)):
            chosen = shard_of == shard
            taken[chosen] = self.shards[shard][flat[chosen] - self._begins[shard]]
        return taken.reshape(indices.shape)


def positions_of(ids: np.ndarray | ShardedIds, token: int) -> np.ndarray:
    """Returns where a token is in an array of ids, int64, ascending."""
    if isinstance(ids, ShardedIds):
        return ids.positions_of(token)
    return np.flatnonzero(ids == token)
