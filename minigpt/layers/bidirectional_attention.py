"""Attention to a source that is known as a whole."""

from typing import Any

import keras
from keras import ops

from minigpt.layers.attention import Attention, attend


@keras.saving.register_keras_serializable("minigpt")
class BidirectionalAttention(Attention):
    """Attention of Vaswani et al. 2017, section 3.2.3, to every token of a source but its padding.

    In the encoder the source asks itself; in the decoder the target asks the encoder's output, whose
    keys and values are computed once (`keys_and_values`) and serve every step. Arguments are those of
    `Attention`.
    """

    def build(self, input_shape: Any) -> None:
        self.query = self.project(self.head_dim, "query")
        self.key_value = self.project(self.head_dim + self.value_dim, "key_value")
        self.query.build(input_shape)
        self.key_value.build(input_shape)
        super().build(input_shape)

    def keys_and_values(self, source: Any) -> tuple[Any, Any]:
        """float[B, S, D] → keys float[B, H, S, K] and values float[B, H, S, U]."""
        parts = ops.split(self.key_value(source), [self.num_heads * self.head_dim], axis=-1)
        return self.by_head(parts[0]), self.by_head(parts[1])

    def call(
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
        visible = ops.arange(ops.shape(key)[2]) < lengths[:, None, None, None]
        query = self.by_head(self.query(x))
        return self.join(attend(query, key, value, visible, self.dropout, training))
