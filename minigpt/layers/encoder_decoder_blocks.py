"""The two post-norm blocks of a model that reads one sequence and writes another."""

from typing import Any

import keras

from minigpt.layers.attention import CausalSelfAttention
from minigpt.layers.bidirectional_attention import BidirectionalAttention
from minigpt.layers.transformer_block import Block


@keras.saving.register_keras_serializable("minigpt")
class EncoderBlock(Block):
    """A layer of the encoder (Vaswani et al. 2017, section 3.1): every token sees the whole source.

        x = LN(x + drop(MHA(x)))
        x = LN(x + drop(FFN(x)))

    Arguments are those of `Block`.
    """

    attention_class = BidirectionalAttention
    attention: BidirectionalAttention

    def call(self, x: Any, lengths: Any, training: bool | None = None) -> Any:
        """One block.

        Args:
          x: float[B, S, D].
          lengths: int32[B]; the tokens behind them are padding, which nobody sees.
        Returns:
          float[B, S, D].
        """
        itself = self.attention.keys_and_values(x)
        attended = self.attention(x, itself, lengths, training=training)
        x = self.norm1(x + self.dropout1(attended, training=training))
        return self.norm2(x + self.dropout2(self.feed_forward(x, training), training=training))


@keras.saving.register_keras_serializable("minigpt")
class DecoderBlock(Block):
    """A layer of the decoder (Vaswani et al. 2017, section 3.1).

        x = LN(x + drop(MHA(x)))            causal
        x = LN(x + drop(MHA(x, source)))    cross-attention
        x = LN(x + drop(FFN(x)))

    Arguments are those of `Block`.
    """

    attention_class = CausalSelfAttention
    attention: CausalSelfAttention

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policy = self.dtype_policy
        self.cross_attention = BidirectionalAttention(
            self.num_heads,
            self.head_dim,
            self.value_dim,
            self.qkv_bias,
            self.attention_dropout_rate,
            self.kernel_initializer,
            self.output_initializer,
            dtype=policy,
            name="cross_attention",
        )
        self.cross_norm = keras.layers.LayerNormalization(
            epsilon=self.norm_epsilon, dtype=policy, name="cross_norm"
        )
        self.cross_dropout = keras.layers.Dropout(self.dropout_rate, dtype=policy)

    def build(self, input_shape: Any) -> None:
        self.cross_attention.build(input_shape)
        self.cross_norm.build(input_shape)
        super().build(input_shape)

    def call(
        self, x: Any, source: tuple[Any, Any], lengths: Any, training: bool | None = None
    ) -> Any:
        """float[B, T, D] → float[B, T, D]; `source` and `lengths` as in `call_with_cache`."""
        return self.call_with_cache(x, source, lengths, training=training)[0]

    def call_with_cache(
        self,
        x: Any,
        source: tuple[Any, Any],
        lengths: Any,
        cache: Any = None,
        index: Any = None,
        training: bool | None = None,
    ) -> tuple[Any, Any]:
        """The same, with the tokens of earlier calls in a cache or without.

        Args:
          x: float[B, T, D].
          source: `cross_attention.keys_and_values` of the encoder's output.
          lengths: int32[B], of the source.
          cache: the self-attention's, or None.
          index: int32[B], slot of each row's first token in the cache.
        Returns:
          float[B, T, D], and the new cache (None if none was given).
        """
        attended, cache = self.attention.call_with_cache(x, cache, index, training)
        x = self.norm1(x + self.dropout1(attended, training=training))
        attended = self.cross_attention(x, source, lengths, training=training)
        x = self.cross_norm(x + self.cross_dropout(attended, training=training))
        x = self.norm2(x + self.dropout2(self.feed_forward(x, training), training=training))
        return x, cache
