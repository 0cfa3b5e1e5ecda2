"""Batches of pairs of similar length; each batch is a pure function of (seed, step).

Pairs are grouped into buckets by length. A pass divides every bucket, in a pseudo-random order, into
batches of nearly equal size and visits the batches of all buckets in a pseudo-random order: every pair
once per pass. All batches of a bucket have one shape, so each shape is compiled once.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from minigpt.corpus.batches import shuffled
from minigpt.errors import UserError

# source_ids int32[B, S], source_lengths int32[B], target_ids int32[B, T]; targets int32[B, T];
# weights float32[B, T].
PairBatch = tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray, np.ndarray]


class Pairs:
    """The sentences of one part of a corpus, source and target in turn.

    Args:
      ids: uint16 or uint32[n + 1]: an end token, then sentences, each followed by an end token.
      max_len: limit for the length of a source with its end token, and of a target with its start token.
      start_id: the token before every target; the end token if None.

    Attributes:
      source_lengths, target_lengths: int64[N], end tokens included.
      fits: bool[N], whether both lengths are at most max_len.
    """

    def __init__(
        self, ids: np.ndarray, end_id: int, max_len: int, start_id: int | None = None
    ) -> None:
        self.ids = ids.view(np.ndarray)
        self.end_id = end_id
        self.start_id = end_id if start_id is None else start_id
        self.max_len = max_len
        self._starts = np.flatnonzero(self.ids == end_id) + 1
        lengths = np.diff(self._starts)
        self.source_lengths, self.target_lengths = lengths[0::2], lengths[1::2]
        self.fits = (self.source_lengths <= max_len) & (self.target_lengths <= max_len)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int | np.integer) -> np.ndarray:
        """Returns the source of a pair with its end token, int32[S]."""
        return self.ids[self._starts[2 * index] : self._starts[2 * index + 1]].astype(np.int32)

    def target(self, index: int | np.integer) -> np.ndarray:
        """Returns the target of a pair with its end token, int32[T]."""
        return self.ids[self._starts[2 * index + 1] : self._starts[2 * index + 2]].astype(np.int32)

    def batch(self, indices: np.ndarray, shape: "Shape") -> PairBatch:
        """Returns the pairs at `indices`, int[n] with n ≤ shape.rows, right-padded to a shape.

        The start token precedes every target. Padding has weight 0 and the end token's id.
        """
        source_ids = np.full((shape.rows, shape.source), self.end_id, np.int32)
        source_lengths = np.ones(shape.rows, np.int32)
        targets = np.full((shape.rows, shape.target), self.end_id, np.int32)
        weights = np.zeros((shape.rows, shape.target), np.float32)
        for row, index in enumerate(indices):
            source, target = self.source(index), self.target(index)
            source_ids[row, : len(source)] = source
            source_lengths[row] = len(source)
            targets[row, : len(target)] = target
            weights[row, : len(target)] = 1
        start = np.full((shape.rows, 1), self.start_id, np.int32)
        target_ids = np.concatenate([start, targets[:, :-1]], axis=1)
        return (source_ids, source_lengths, target_ids), targets, weights


class Shape(NamedTuple):
    """The shape of a batch: number of pairs, length of the sources, length of the targets."""

    rows: int
    source: int
    target: int


class Bucket(NamedTuple):
    """Pairs of similar length: their indices, int64[n], and the shape and number of their batches."""

    indices: np.ndarray
    shape: Shape
    batches: int

    def rows(self, batch: int) -> slice:
        """Returns which pairs, in some order, are in a batch. Sizes differ by at most one pair."""
        size = len(self.indices)
        return slice(batch * size // self.batches, (batch + 1) * size // self.batches)


class Buckets:
    """All batches of a set of pairs.

    Args:
      pairs: pairs that are too long are skipped.
      batch_size: average number of pairs in a batch, weighted by padded tokens. Batches of short pairs
        have more rows and those of long pairs fewer, so that all batches cost about the same.
      max_buckets: limit for the number of shapes.
      text: the text's name, for the error message.

    Attributes:
      buckets: ordered by length.
      tokens_in_pass: tokens of sources and targets, without padding.
      padded_tokens_in_pass: the same with padding.
    Raises:
      UserError: there are fewer pairs than in a batch.
    """

    def __init__(
        self, pairs: Pairs, batch_size: int, max_buckets: int, text: str = "the training text"
    ) -> None:
        self.pairs = pairs
        indices = np.flatnonzero(pairs.fits)
        if len(indices) < batch_size:
            raise UserError(
                f"{text}: {len(indices):,} pairs fit into model.max_len = {pairs.max_len}; "
                f"training.batch_size = {batch_size} needs at least that many"
            )
        parts = _split_by_length(pairs, indices, max_buckets)
        of_side = pairs.source_lengths, pairs.target_lengths
        longest = [[int(lengths[part].max()) for lengths in of_side] for part in parts]
        padded = [len(part) * sum(sizes) for part, sizes in zip(parts, longest, strict=True)]
        per_batch = batch_size * sum(padded) / len(indices)
        self.buckets = []
        for part, sizes, tokens in zip(parts, longest, padded, strict=True):
            batches = max(1, round(tokens / per_batch))
            self.buckets.append(Bucket(part, Shape(-(-len(part) // batches), *sizes), batches))
        # The number of the first batch of every bucket, before the batches of a pass are shuffled.
        self._first = np.cumsum([0, *(bucket.batches for bucket in self.buckets)])
        self.batches_in_pass = int(self._first[-1])
        self.tokens_in_pass = int(sum(lengths[indices].sum() for lengths in of_side))
        shapes = (bucket.shape for bucket in self.buckets for _ in range(bucket.batches))
        self.padded_tokens_in_pass = sum(rows * (s + t) for rows, s, t in shapes)

    def batch_indices(self, seed: int, step: int) -> tuple[np.ndarray, Shape]:
        """Returns the indices of the pairs in the batch of a step, and the batch's shape."""
        pass_index, position = divmod(int(step), self.batches_in_pass)
        batch = shuffled(self.batches_in_pass, seed, pass_index, len(self.buckets))[position]
        bucket_index = int(np.searchsorted(self._first, batch, side="right")) - 1
        bucket = self.buckets[bucket_index]
        order = shuffled(len(bucket.indices), seed, pass_index, bucket_index)
        rows = bucket.rows(batch - self._first[bucket_index])
        return bucket.indices[order[rows]], bucket.shape

    def training_batch(self, seed: int, step: int) -> PairBatch:
        """Returns the batch of one step."""
        return self.pairs.batch(*self.batch_indices(seed, step))

    def once(self) -> Iterator[PairBatch]:
        """Yields every pair exactly once, bucket by bucket, in the order of the corpus."""
        for bucket in self.buckets:
            for batch in range(bucket.batches):
                yield self.pairs.batch(bucket.indices[bucket.rows(batch)], bucket.shape)


def _split_by_length(pairs: Pairs, indices: np.ndarray, max_parts: int) -> list[np.ndarray]:
    """Divides pairs by their longer side into the at most `max_parts` parts with the least padding.

    Quantiles of the lengths need 3% to 12% more positions, and other batches than the runs that exist.
    """
    source, target = pairs.source_lengths[indices], pairs.target_lengths[indices]
    longer = np.maximum(source, target)
    top = int(longer.max()) + 1
    count = np.bincount(longer, minlength=top)
    longest = np.zeros((2, top), np.int64)
    np.maximum.at(longest, (0, longer), source)
    np.maximum.at(longest, (1, longer), target)

    @functools.cache
    def padded(begin: int, end: int) -> int:
        return int(count[begin:end].sum() * longest[:, begin:end].max(axis=1).sum())

    # For each number of parts: the least padded tokens of the pairs with lengths below each end, and the
    # lengths at which the parts begin, the last one first.
    best: list[dict[int, tuple[int, ...]]] = [{0: (0,)}]
    for _ in range(max_parts):
        best.append(
            {
                end: min((b[0] + padded(n, end), n, *b[1:]) for n, b in best[-1].items() if n < end)
                for end in range(len(best), top + 1)
            }
        )
    _, *begins = min((found[top] for found in best[1:] if top in found), key=lambda b: b[0])
    parts = np.digitize(longer, begins[::-1])
    return [indices[parts == part] for part in np.unique(parts)]
