"""Multi-head attention, written out, with a cache for decoding token by token."""

from typing import Any

import keras
from keras import ops


def attend(
    query: Any, key: Any, value: Any, visible: Any, dropout: Any, training: bool | None = None
) -> Any:
    """Scaled dot-product attention of every head: softmax(Q Kᵀ / sqrt(K)) V.

    Vaswani et al. 2017, section 3.2.1.

    Args:
      query: float[B, T, H, K], what each token looks for.
      key: float[B, S, H, K], what each token has.
      value: float[B, S, H, U], what each token says.
      visible: bool, broadcast to [B, H, T, S]: which tokens may be looked at. Every row needs one:
        the softmax of nothing is nan.
      dropout: the layer that drops attention weights while training.
    Returns:
      float[B, T, H, U].
    """
    scores = ops.einsum("bthk,bshk->bhts", query / query.shape[-1] ** 0.5, key)
    scores = ops.where(visible, scores, ops.cast(float("-inf"), scores.dtype))
    weights = dropout(ops.softmax(scores, axis=-1), training=training)
    return ops.einsum("bhts,bshu->bthu", weights, value)


@keras.saving.register_keras_serializable("minigpt")
class MultiHeadAttention(keras.layers.Layer):
    """Causal self-attention of Vaswani et al. 2017, section 3.2.

    Every token asks (query) all tokens up to itself what they have (key) and takes a mean of what
    they say (value), weighted by how well the two agree: softmax(Q Kᵀ / sqrt(K)) V, for every head
    in parallel; a dense projection of the concatenated heads follows.

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
        # One product for all three is faster than three.
        self.qkv = keras.layers.Dense(
            self.num_heads * (2 * self.head_dim + self.value_dim),
            use_bias=self.use_bias,
            kernel_initializer=self.kernel_initializer,
            dtype=self.dtype_policy,
            name="qkv",
        )
        self.output_projection = keras.layers.Dense(
            input_shape[-1],
            kernel_initializer=self.output_initializer,
            dtype=self.dtype_policy,
            name="output",
        )
        self.qkv.build(input_shape)
        self.output_projection.build((*input_shape[:-1], self.num_heads * self.value_dim))
        self.built = True

    def call(self, x: Any, training: bool | None = None) -> Any:
        """float[B, T, D] → float[B, T, D]: from every token to the tokens before it and to itself."""
        return self.advance(x, training=training)[0]

    def advance(
        self, x: Any, cache: Any = None, index: Any = None, training: bool | None = None
    ) -> tuple[Any, Any]:
        """The same, with the tokens of earlier calls in a cache or without.

        Args:
          x: float[B, T, D].
          cache: None, or keys float[B, S, H, K] and values float[B, S, H, U] of earlier tokens.
          index: int32[B], slot of each row's first token in the cache. Slots from there on are
            overwritten before they are read.
        Returns:
          float[B, T, D], and the cache with the tokens of `x` in it (None if none was given).
        """
        batch, length = ops.shape(x)[0], ops.shape(x)[1]
        keys = self.num_heads * self.head_dim
        query, key, value = (
            ops.reshape(part, (batch, length, self.num_heads, part.shape[-1] // self.num_heads))
            for part in ops.split(self.qkv(x), [keys, 2 * keys], axis=-1)
        )

        positions = ops.arange(length)[None]
        if cache is not None:
            positions = positions + index[:, None]
            slots = ops.stack([_rows_like(positions), positions], axis=-1)
            key = ops.scatter_update(cache[0], slots, key)
            value = ops.scatter_update(cache[1], slots, value)
            cache = (key, value)

        # Every token sees itself at least.
        visible = ops.arange(ops.shape(key)[1]) <= positions[:, None, :, None]
        heads = attend(query, key, value, visible, self.dropout, training)
        heads = ops.reshape(heads, (batch, length, self.num_heads * self.value_dim))
        return self.output_projection(heads), cache

    def empty_cache(self, batch_size: Any, max_len: int) -> tuple[Any, Any]:
        """Keys and values of no token yet: zeros[B, max_len, H, K] and [B, max_len, H, U]."""
        shape = (batch_size, max_len, self.num_heads)
        return (
            ops.zeros((*shape, self.head_dim), self.compute_dtype),
            ops.zeros((*shape, self.value_dim), self.compute_dtype),
        )

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


def _rows_like(positions: Any) -> Any:
    """int32[B, T] whose entries are their row's number."""
    return ops.arange(ops.shape(positions)[0])[:, None] + ops.zeros_like(positions)
