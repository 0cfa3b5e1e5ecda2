"""Multi-head attention, written out, with a cache for decoding token by token."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from minigpt.layers.dense import Dense


def attend(
    query: Any, key: Any, value: Any, visible: Any, dropout: Any, training: bool | None = None
) -> Any:
    """Scaled dot-product attention of every head: softmax(Q Kᵀ / sqrt(K)) V.

    Vaswani et al. 2017, section 3.2.1.

    Args:
      query: float[B, H, T, K], what each token looks for.
      key: float[B, H, S, K], what each token has.
      value: float[B, H, S, U], what each token says.
      visible: bool, broadcast to [B, H, T, S]: which tokens may be looked at. Every row needs one:
        the softmax of nothing is nan.
      dropout: the layer that drops attention weights while training.
    Returns:
      float[B, H, T, U].
    """
    # `ops.einsum` would copy the keys into another order first.
    scores = tf.matmul(query / query.shape[-1] ** 0.5, key, transpose_b=True)
    scores = ops.where(visible, scores, ops.cast(float("-inf"), scores.dtype))
    weights = dropout(ops.softmax(scores, axis=-1), training=training)
    return tf.matmul(weights, value)


class Attention(keras.layers.Layer):
    """What the kinds of multi-head attention have in common (Vaswani et al. 2017, section 3.2.2).

    Args:
      num_heads: H.
      head_dim: K, width of a head's queries and keys.
      value_dim: U, width of a head's values; K if None.
      use_bias: whether the projection to queries, keys and values adds a bias.
      dropout_rate: share of the attention weights dropped while training.
      kernel_initializer: of the projection to queries, keys and values.
      output_initializer: of the output projection's kernel; the same if None.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        value_dim: int | None = None,
        use_bias: bool = True,
        dropout_rate: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        output_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.value_dim = value_dim or head_dim
        self.use_bias = use_bias
        self.dropout_rate = dropout_rate
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.output_initializer = keras.initializers.get(output_initializer or kernel_initializer)
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        self.output_projection = Dense(
            input_shape[-1],
            kernel_initializer=self.output_initializer,
            dtype=self.dtype_policy,
            name="output",
        )
        self.output_projection.build((*input_shape[:-1], self.num_heads * self.value_dim))
        self.built = True

    def project(self, width: int, name: str) -> Dense:
        """The dense layer that gives `width` features a head of what is attended from or to."""
        return Dense(
            self.num_heads * width,
            use_bias=self.use_bias,
            kernel_initializer=self.kernel_initializer,
            dtype=self.dtype_policy,
            name=name,
        )

    def by_head(self, x: Any) -> Any:
        """float[B, T, H·N] → float[B, H, T, N]."""
        size = x.shape[-1] // self.num_heads
        heads = ops.reshape(x, (ops.shape(x)[0], ops.shape(x)[1], self.num_heads, size))
        return ops.transpose(heads, (0, 2, 1, 3))

    def join(self, heads: Any) -> Any:
        """float[B, H, T, U] → float[B, T, D]: the projection of the concatenated heads."""
        heads = ops.transpose(heads, (0, 2, 1, 3))
        shape = (ops.shape(heads)[0], ops.shape(heads)[1], self.num_heads * self.value_dim)
        return self.output_projection(ops.reshape(heads, shape))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "value_dim": self.value_dim,
            "use_bias": self.use_bias,
            "dropout_rate": self.dropout_rate,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "output_initializer": keras.initializers.serialize(self.output_initializer),
        }


@keras.saving.register_keras_serializable("minigpt")
class CausalSelfAttention(Attention):
    """Causal self-attention of Vaswani et al. 2017, section 3.2.

    Every token asks (query) all tokens up to itself what they have (key) and takes a mean of what
    they say (value), weighted by how well the two agree: softmax(Q Kᵀ / sqrt(K)) V, for every head
    in parallel; a dense projection of the concatenated heads follows.

    Arguments are those of `Attention`.
    """

    def build(self, input_shape: Any) -> None:
        # One product for all three is faster than three.
        self.qkv = self.project(2 * self.head_dim + self.value_dim, "qkv")
        self.qkv.build(input_shape)
        super().build(input_shape)

    def call(self, x: Any, training: bool | None = None) -> Any:
        """float[B, T, D] → float[B, T, D]: from every token to the tokens before it and to itself."""
        return self.call_with_cache(x, training=training)[0]

    def call_with_cache(
        self, x: Any, cache: Any = None, index: Any = None, training: bool | None = None
    ) -> tuple[Any, Any]:
        """The same, with the tokens of earlier calls in a cache or without.

        Args:
          x: float[B, T, D].
          cache: None, or keys float[B, H, S, K] and values float[B, H, S, U] of earlier tokens.
          index: int32[B], slot of each row's first token in the cache. Slots from there on are
            overwritten before they are read.
        Returns:
          float[B, T, D], and the cache with the tokens of `x` in it (None if none was given).
        """
        keys = self.num_heads * self.head_dim
        parts = ops.split(self.qkv(x), [keys, 2 * keys], axis=-1)
        query, key, value = map(self.by_head, parts)

        positions = ops.arange(ops.shape(x)[1])[None]
        if cache is not None:
            positions = positions + index[:, None]
            slots = _slots(positions, self.num_heads)
            key = ops.scatter_update(cache[0], slots, key)
            value = ops.scatter_update(cache[1], slots, value)
            cache = (key, value)

        # Every token sees itself at least.
        visible = ops.arange(ops.shape(key)[2]) <= positions[:, None, :, None]
        return self.join(attend(query, key, value, visible, self.dropout, training)), cache

    def empty_cache(self, batch_size: Any, max_len: int) -> tuple[Any, Any]:
        """Keys and values of no token yet: zeros[B, H, max_len, K] and [B, H, max_len, U]."""
        shape = (batch_size, self.num_heads, max_len)
        return (
            ops.zeros((*shape, self.head_dim), self.compute_dtype),
            ops.zeros((*shape, self.value_dim), self.compute_dtype),
        )


def _slots(positions: Any, num_heads: int) -> Any:
    """int32[B, T] → int32[B, H, T, 3]: row, head and slot of every token's entries."""
    positions = ops.repeat(positions[:, None], num_heads, axis=1)
    rows, heads = ops.shape(positions)[0], ops.arange(num_heads)
    parts = (ops.arange(rows)[:, None, None], heads[:, None], positions)
    return ops.stack([part + ops.zeros_like(positions) for part in parts], axis=-1)
