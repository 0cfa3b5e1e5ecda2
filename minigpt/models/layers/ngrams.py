"""Parts that read the last few tokens: a causal convolution and the embeddings of n-grams.

In decoding, both keep what they have read in a cache with one slot per token, as attention does.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from minigpt.models.layers.attention import cache_entries
from minigpt.models.layers.dropout import Dropout


def earlier(
    x: Any, count: int, cache: Any = None, index: Any = None, starts: Any = None
) -> tuple[list[Any], Any]:
    """Returns the entries of the tokens before those of `x`: zeros before the first token of a text.

    Args:
      x: [B, T, N], of each token.
      count: the number of tokens before each one.
      cache: None, or [B, 1, S, N] of earlier tokens.
      index: int32[B], cache slot of the first token of each row.
      starts: int32[B, T], where the text of each token begins; 0 if None. Only without a cache.
    Returns:
      `count` arrays of the shape of `x`: of the token before, of that before it, ...; and the cache with
      the tokens of `x` added (None without a cache).
    """
    length = ops.shape(x)[1]
    if cache is None:
        padded = ops.pad(x, [[0, 0], [count, 0], [0, 0]])
        before = [padded[:, count - k : count - k + length] for k in range(1, count + 1)]
        if starts is not None:
            places = ops.arange(length)[None] - starts
            zeros = ops.zeros_like(x)
            before = [
                ops.where((places >= k)[..., None], b, zeros) for k, b in enumerate(before, 1)
            ]
        return before, None
    positions = index[:, None] + ops.arange(length)
    cache = ops.scatter_update(cache, cache_entries(positions, 1), x[:, None])
    batch, _, capacity, size = ops.shape(cache)
    places = positions[..., None] - np.arange(1, count + 1, dtype="int32")
    entries = capacity * ops.arange(batch)[:, None, None] + ops.maximum(places, 0)
    found = tf.gather(ops.reshape(cache, [-1, size]), entries)
    found = ops.where((places >= 0)[..., None], found, ops.zeros_like(found))
    return ops.unstack(found, count, axis=2), cache


@keras.saving.register_keras_serializable("minigpt")
class CausalConvolution(keras.layers.Layer):
    """Adds to each vector a weighted sum of itself and the vectors before it, channel by channel.

    y[t] = x[t] + Σ w[k] ⊙ x[t - k], k = 0 .. taps - 1 (Allen-Zhu 2025, "Physics of Language Models: Part
    4.1", Canon layers). The weights are 0 at first.

    Args:
      taps: number of vectors that are read.
    """

    def __init__(self, taps: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taps = taps

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(
            shape=(self.taps, input_shape[-1]), initializer="zeros", name="kernel"
        )
        self.built = True

    def call(
        self, x: Any, cache: Any = None, index: Any = None, starts: Any = None
    ) -> tuple[Any, Any]:
        """Computes the sums; `cache`, `index` and `starts` as for `earlier`.

        Returns:
          float[B, T, D], and the cache with the tokens of `x` added (None without a cache).
        """
        first, *others = ops.unstack(ops.cast(self.kernel, x.dtype), self.taps)
        vectors, cache = earlier(x, self.taps - 1, cache, index, starts)
        total = x + first * x
        for weights, vector in zip(others, vectors, strict=True):
            total = total + weights * vector
        return total, cache

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "taps": self.taps}


@keras.saving.register_keras_serializable("minigpt")
class NGramEmbedding(keras.layers.Layer):
    """The sum of a vector for each of the n-grams that end with a token (Pagnoni et al. 2024, section 3.2).

    The row of an n-gram is `ngram_row`; several n-grams may share one. The first tokens of a text have no
    n-gram of a higher order than their number.

    Args:
      orders: numbers of tokens of the n-grams.
      rows: rows of the table of each order.
      embed_dim: D.
      dropout_rate: share of the sum's entries dropped in training.
    """

    def __init__(
        self,
        orders: list[int],
        rows: int,
        embed_dim: int,
        dropout_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        # Keras would cast the ids in the cache to bfloat16, which is exact up to 256 only.
        super().__init__(autocast=False, **kwargs)
        self.orders, self.rows, self.embed_dim = list(orders), rows, embed_dim
        self.dropout_rate = dropout_rate
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        self.table = self.add_weight(
            shape=(len(self.orders) * self.rows, self.embed_dim),
            initializer="zeros",
            name="table",
        )
        self.built = True

    def call(
        self,
        token_ids: Any,
        cache: Any = None,
        index: Any = None,
        training: bool | None = None,
        starts: Any = None,
    ) -> tuple[Any, Any]:
        """Embeds the n-grams of int32[B, T].

        Args:
          cache: None, or float32[B, 1, S, 1], earlier token ids, each plus 1.
          index, starts: as for `earlier`.
        Returns:
          float[B, T, D], and the cache with these tokens added (None without a cache).
        """
        # In float32, as all other caches of an export; 0 stands for no token.
        ids = ops.cast(token_ids[..., None], "float32") + 1
        before, cache = earlier(ids, max(self.orders) - 1, cache, index, starts)
        numbers = [ops.cast(found[..., 0], "int32") - 1 for found in [ids, *before]]
        table = ops.cast(self.table, self.compute_dtype)
        total: Any = 0.0
        for place, order in enumerate(self.orders):
            exists = numbers[order - 1] >= 0
            row = ngram_row([ops.maximum(n, 0) for n in numbers[:order]], self.rows)
            vectors = ops.take(table, row + place * self.rows, axis=0)
            total = total + ops.where(exists[..., None], vectors, ops.zeros_like(vectors))
        return self.dropout(total, training=training), cache

    def get_config(self) -> dict[str, Any]:
        names = ("orders", "rows", "embed_dim", "dropout_rate")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def ngram_row(newest_first: list[Any], rows: int) -> Any:
    """Returns the rows of n-grams: h = (m h + token) mod rows, from the oldest token to the newest.

    The multiplier m is about rows / φ, so that the rows of the tokens after one another token are far apart
    (Knuth, The Art of Computer Programming 3, section 6.4). With at most 2^15 rows, m h + token has no more
    than 31 bits for all token ids below 2^24, the largest integers that are exact in float32.

    Args:
      newest_first: the ids of the last tokens, int32 of any shape; the rows have this shape.
      rows: number of rows.
    """
    multiplier = int(rows * 0.6180339887) | 1
    *newer, oldest = newest_first
    row = oldest % rows
    for token in reversed(newer):
        row = (row * multiplier + token) % rows
    return row
