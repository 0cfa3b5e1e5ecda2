"""Attention to all tokens of a source: self-attention of the encoder, cross-attention of the decoder."""

from typing import Any

import keras
from keras import ops

from minigpt.models.layers.attention import Attention, attend


class BidirectionalAttention(Attention):
    """Base class of attention to all tokens of a source except padding.

    Keys and values of the source are computed separately (`keys_and_values`), so that decoding computes
    them only once. Arguments are those of `Attention`.
    """

    def build(self, input_shape: Any) -> None:
        queries, keys = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        values = self.num_kv_heads * self.value_dim
        self.query = self.build_projection(input_shape, "query", queries)
        self.key_value = self.build_projection(input_shape, "key_value", keys, values)
        super().build(input_shape)

    def encode_positions(self, x: Any) -> Any:
        """Encodes positions in queries or keys float[B, H, T, K]; unchanged by default."""
        return x

    def keys_and_values(self, source: Any) -> tuple[Any, Any]:
        """float[B, S, D] → keys float[B, G, S, K] and values float[B, G, S, U]."""
        parts = ops.split(self.key_value(source), [self.num_kv_heads * self.head_dim], axis=-1)
        key, value = (self.split_heads(part, self.num_kv_heads) for part in parts)
        return self.encode_positions(self.normalize_key(key)), value

    def call(
        self, x: Any, source: tuple[Any, Any], lengths: Any, training: bool | None = None
    ) -> Any:
        """Attends from each token of `x` to the first `lengths` tokens of the source.

        Args:
          x: float[B, T, D].
          source: from `keys_and_values`.
          lengths: int32[B], each 1 or more; later tokens are padding.
        Returns:
          float[B, T, D].
        """
        key, value = source
        visible = ops.arange(ops.shape(key)[2]) < lengths[:, None, None, None]
        query = self.normalize_query(self.split_heads(self.query(x), self.num_heads))
        query = self.encode_positions(query)
        return self.project_output(attend(query, key, value, visible, self.dropout, training))


@keras.saving.register_keras_serializable("minigpt")
class BidirectionalSelfAttention(BidirectionalAttention):
    """Self-attention of the encoder (Vaswani et al. 2017, section 3.2.3): the source is `x` itself."""

    def encode_positions(self, x: Any) -> Any:
        return self.rotate(x, ops.arange(ops.shape(x)[2])[None])


@keras.saving.register_keras_serializable("minigpt")
class CrossAttention(BidirectionalAttention):
    """Attention of the decoder to the encoder's output (Vaswani et al. 2017, section 3.2.3)."""


# Keras stores the class name of a layer in files, and derives part of the path of its weights from it.
@keras.saving.register_keras_serializable("minigpt")
class SourceAttention(CrossAttention):
    """The name of `CrossAttention` in files that earlier versions saved."""
