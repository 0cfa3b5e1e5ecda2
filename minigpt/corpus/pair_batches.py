"""Token ids of pairs → batches of pairs alike in length, each a pure function of (seed, step).

Pairs lie in buckets by length. A pass cuts every bucket, in a pseudo-random order, into batches of
nearly as many pairs each, and goes through the batches of all buckets in a pseudo-random order: every
pair once a pass. A bucket's batches have one shape, so that each shape is compiled once.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from minigpt.corpus.batches import in_this_thread
from minigpt.errors import UserError

# source_ids int32[B, S], source_lengths int32[B], target_ids int32[B, T]; targets int32[B, T];
# weights float32[B, T].
PairBatch = tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray, np.ndarray]


class Pairs:
    """The sentences of a part of a corpus, source and target in turn.

    Args:
      ids: uint16 or uint32[n + 1]: an end token, then sentences, an end token behind each.
      end_id: the end token.
      max_len: longest source, with its end token, and longest target, with the token in front.

    Attributes:
      source_lengths, target_lengths: int64[N], end tokens counted.
      fits: bool[N], whether both are at most max_len.
    """

    def __init__(self, ids: np.ndarray, end_id: int, max_len: int) -> None:
        self.ids = ids.view(np.ndarray)
        self.end_id = end_id
        self.max_len = max_len
        self._starts = np.flatnonzero(self.ids == end_id) + 1
        lengths = np.diff(self._starts)
        self.source_lengths, self.target_lengths = lengths[0::2], lengths[1::2]
        self.fits = (self.source_lengths <= max_len) & (self.target_lengths <= max_len)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, number: int | np.integer) -> np.ndarray:
        """int32[S], the end token included."""
        start, stop = self._starts[2 * number : 2 * number + 2]
        return self.ids[start:stop].astype(np.int32)

    def target(self, number: int | np.integer) -> np.ndarray:
        """int32[T], the end token included."""
        start, stop = self._starts[2 * number + 1 : 2 * number + 3]
        return self.ids[start:stop].astype(np.int32)

    def batch(self, numbers: np.ndarray, shape: "Shape") -> PairBatch:
        """Some pairs, right-padded to a shape.

        The end token stands in front of a target too, as the beginning-of-sentence token. Rows and
        places that hold nothing have weight 0 and the end token's id.

        Args:
          numbers: int[n], n ≤ shape.rows.
        """
        source_ids = np.full((shape.rows, shape.source), self.end_id, np.int32)
        source_lengths = np.ones(shape.rows, np.int32)
        targets = np.full((shape.rows, shape.target), self.end_id, np.int32)
        weights = np.zeros((shape.rows, shape.target), np.float32)
        for row, number in enumerate(numbers):
            source, target = self.source(number), self.target(number)
            source_ids[row, : len(source)] = source
            source_lengths[row] = len(source)
            targets[row, : len(target)] = target
            weights[row, : len(target)] = 1
        begin = np.full((shape.rows, 1), self.end_id, np.int32)
        target_ids = np.concatenate([begin, targets[:, :-1]], axis=1)
        return (source_ids, source_lengths, target_ids), targets, weights


@dataclass(frozen=True)
class Shape:
    """Of a batch: pairs, and places for the tokens of each source and target."""

    rows: int
    source: int
    target: int


@dataclass(frozen=True)
class Bucket:
    """Pairs alike in length, int64[n], and the shape of their batches."""

    numbers: np.ndarray
    shape: Shape
    batches: int


class Buckets:
    """The batches of pairs.

    Args:
      pairs: pairs that are too long are left out.
      batch_size: pairs in a batch on average over all places; batches of short pairs have more, those of
        long pairs fewer, so that each computes about the same number of tokens.
      most_buckets: most shapes.
    Raises:
      UserError: there are fewer pairs than in a batch.
    """

    def __init__(self, pairs: Pairs, batch_size: int, most_buckets: int) -> None:
        self.pairs = pairs
        numbers = np.flatnonzero(pairs.fits)
        if len(numbers) < batch_size:
            raise UserError(
                f"the training text has {len(numbers):,} pairs; should be at least "
                f"training.batch_size = {batch_size}"
            )
        parts = _split_by_length(pairs, numbers, most_buckets)
        shapes = [
            (int(pairs.source_lengths[part].max()), int(pairs.target_lengths[part].max()))
            for part in parts
        ]
        places = sum(len(part) * sum(shape) for part, shape in zip(parts, shapes, strict=True))
        per_batch = batch_size * places / len(numbers)
        self.buckets = []
        for part, (source, target) in zip(parts, shapes, strict=True):
            batches = max(1, round(len(part) * (source + target) / per_batch))
            rows = -(-len(part) // batches)
            self.buckets.append(Bucket(part, Shape(rows, source, target), batches))
        # Bucket of every batch of a pass, before they are put in an order.
        self._bucket_of = np.repeat(
            np.arange(len(self.buckets)), [bucket.batches for bucket in self.buckets]
        )
        first = np.cumsum([0, *(bucket.batches for bucket in self.buckets)])
        self._first_of = first[:-1]
        self.tokens_in_pass = int(
            (pairs.source_lengths[numbers] + pairs.target_lengths[numbers]).sum()
        )
        self.places_in_pass = sum(
            bucket.batches * bucket.shape.rows * (bucket.shape.source + bucket.shape.target)
            for bucket in self.buckets
        )

    @property
    def batches_in_pass(self) -> int:
        return len(self._bucket_of)

    @property
    def tokens_per_batch(self) -> float:
        """Tokens of sources and targets in a batch on average, without padding."""
        return self.tokens_in_pass / self.batches_in_pass

    def numbers(self, seed: int, step: int) -> tuple[np.ndarray, Shape]:
        """Which pairs are in the batch of a step, and its shape."""
        passes, place = divmod(int(step), self.batches_in_pass)
        batch = _order(seed, passes, len(self.buckets), self.batches_in_pass)[place]
        which = int(self._bucket_of[batch])
        bucket = self.buckets[which]
        order = _order(seed, passes, which, len(bucket.numbers))
        # Parts of an even cut differ by one pair at most.
        begin, end = (
            (batch - self._first_of[which] + side) * len(order) // bucket.batches for side in (0, 1)
        )
        return bucket.numbers[order[begin:end]], bucket.shape

    def training_batch(self, seed: int, step: int) -> PairBatch:
        """The batch of one step."""
        return self.pairs.batch(*self.numbers(seed, step))

    def dataset(self, seed: int, first_step: int, steps: int) -> tf.data.Dataset:
        """The batches of `steps` steps from `first_step` on, as `Model.fit` takes them."""

        def read(step: np.ndarray) -> tuple[np.ndarray, ...]:
            inputs, targets, weights = self.training_batch(seed, int(step))
            return (*inputs, targets, weights)

        def batch(step: tf.Tensor) -> tuple[tuple[tf.Tensor, ...], tf.Tensor, tf.Tensor]:
            types = (tf.int32, tf.int32, tf.int32, tf.int32, tf.float32)
            source, lengths, target, targets, weights = tf.numpy_function(read, [step], types)
            return (
                (
                    tf.ensure_shape(source, [None, None]),
                    tf.ensure_shape(lengths, [None]),
                    tf.ensure_shape(target, [None, None]),
                ),
                tf.ensure_shape(targets, [None, None]),
                tf.ensure_shape(weights, [None, None]),
            )

        return in_this_thread(tf.data.Dataset.range(first_step, first_step + steps).map(batch))

    def once(self) -> Iterator[PairBatch]:
        """Every pair exactly once, bucket by bucket, in their own order."""
        for bucket in self.buckets:
            for batch in range(bucket.batches):
                begin, end = (
                    (batch + side) * len(bucket.numbers) // bucket.batches for side in (0, 1)
                )
                yield self.pairs.batch(bucket.numbers[begin:end], bucket.shape)


def _split_by_length(pairs: Pairs, numbers: np.ndarray, most: int) -> list[np.ndarray]:
    """Cuts pairs, by the longer of their sides, into the `most` parts that need the fewest places.

    Dynamic programming over all lengths: `best[k][b]` is the least number of places for the pairs of
    lengths below `b` in `k` parts.
    """
    source, target = pairs.source_lengths[numbers], pairs.target_lengths[numbers]
    longer = np.maximum(source, target)
    top = int(longer.max()) + 1
    count = np.bincount(longer, minlength=top)
    longest = np.zeros((2, top), np.int64)
    np.maximum.at(longest[0], longer, source)
    np.maximum.at(longest[1], longer, target)

    best = np.full((most + 1, top + 1), np.inf)
    cut = np.zeros((most + 1, top + 1), np.int64)
    best[0, 0] = 0
    for end in range(1, top + 1):
        for begin in range(end):
            shape = longest[:, begin:end].max(axis=1).sum()
            places = best[:-1, begin] + count[begin:end].sum() * shape
            better = places < best[1:, end]
            best[1:, end] = np.where(better, places, best[1:, end])
            cut[1:, end] = np.where(better, begin, cut[1:, end])
    parts: list[np.ndarray] = []
    end, k = top, int(np.argmin(best[:, top]))
    while k:
        begin = int(cut[k, end])
        parts.append(numbers[(longer >= begin) & (longer < end)])
        end, k = begin, k - 1
    return [part for part in reversed(parts) if len(part)]


# An order a bucket and one of the batches, of the passes that a batch can lie in.
@functools.lru_cache(maxsize=64)
def _order(seed: int, passes: int, which: int, size: int) -> np.ndarray:
    # The raw stream of a bit generator is the same in every version of numpy.
    raw = np.random.PCG64([seed, passes, which]).random_raw(size)
    return np.argsort(raw, kind="stable")
