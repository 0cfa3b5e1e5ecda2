"""Attention to a source that is known as a whole."""

from typing import Any

import keras
from keras import ops

from minigpt.layers.attention import MultiHeadAttention, attend


@keras.saving.register_keras_serializable("minigpt")
class SourceAttention(MultiHeadAttention):
    """Attention of Vaswani et al. 2017, section 3.2.3, to every token of a source but its padding.

    In the encoder the source asks itself; in the decoder the target asks the encoder's output, whose
    keys and values are computed once (`keys_and_values`) and serve every step. Arguments are those of
    `MultiHeadAttention`.
    """

    def build(self, input_shape: Any) -> None:
        self.query = keras.layers.Dense(
            self.num_heads * self.head_dim,
            use_bias=self.use_bias,
            kernel_initializer=self.kernel_initializer,
            dtype=self.dtype_policy,
            name="query",
        )
        self.key_value = keras.layers.Dense(
            self.num_heads * (self.head_dim + self.value_dim),
            use_bias=self.use_bias,
            kernel_initializer=self.kernel_initializer,
            dtype=self.dtype_policy,
            name="key_value",
        )
        self.output_projection = keras.layers.Dense(
            input_shape[-1],
            kernel_initializer=self.output_initializer,
            dtype=self.dtype_policy,
            name="output",
        )
        self.query.build(input_shape)
        self.key_value.build(input_shape)
        self.output_projection.build((*input_shape[:-1], self.num_heads * self.value_dim))
        self.built = True

    def keys_and_values(self, source: Any) -> tuple[Any, Any]:
        """float[B, S, D] → keys float[B, S, H, K] and values float[B, S, H, U]."""
        key, value = ops.split(self.key_value(source), [self.num_heads * self.head_dim], axis=-1)
        return self._by_head(key), self._by_head(value)

    def call(  # type: ignore[override]
        self, x: Any, source: tuple[Any, Any], lengths: Any, training: bool | None = None
    ) -> Any:
        """Attends from every token of `x` to the first `lengths` tokens of the source.

        Args:
          x: float[B, T, D].
          source: from `keys_and_values`.
          lengths: int32[B], each 1 or more; what stands behind is padding.
        Returns:
          float[B, T, D].
        """
        key, value = source
        visible = ops.arange(ops.shape(key)[1]) < lengths[:, None, None, None]
        heads = attend(self._by_head(self.query(x)), key, value, visible, self.dropout, training)
        batch, length = ops.shape(x)[0], ops.shape(x)[1]
        heads = ops.reshape(heads, (batch, length, self.num_heads * self.value_dim))
        return self.output_projection(heads)

    def _by_head(self, x: Any) -> Any:
        """float[B, T, H·N] → float[B, T, H, N]."""
        size = x.shape[-1] // self.num_heads
        return ops.reshape(x, (ops.shape(x)[0], ops.shape(x)[1], self.num_heads, size))
