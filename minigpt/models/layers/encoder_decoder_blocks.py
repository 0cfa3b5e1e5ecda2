"""The two blocks of the encoder-decoder."""

from typing import Any, ClassVar

import keras

from minigpt.models.layers.arguments import MODEL_NAMES, checked_arguments
from minigpt.models.layers.attention import (
    BidirectionalSelfAttention,
    CausalSelfAttention,
    CrossAttention,
)
from minigpt.models.layers.dropout import Dropout
from minigpt.models.layers.norms import build_norm
from minigpt.models.layers.transformer_block import Block


class PairBlock(Block):
    """Base class of the two blocks. Arguments are those of `TransformerBlock`, except `causal`.

    If `head_dim` is not given, K = D / H. A mask of Keras is not applied: the calls are given lengths.
    The formulas of the subclasses are those of `block = "post_norm"`; for the other kinds, see
    `TransformerBlock`.
    """

    default_settings: ClassVar[dict[str, Any]] = {"kind": "encoder_decoder"}

    __init__ = checked_arguments(MODEL_NAMES)(Block.__init__)


@keras.saving.register_keras_serializable("minigpt")
class EncoderBlock(PairBlock):
    """A layer of the encoder (Vaswani et al. 2017, section 3.1). Attention is not causal.

        x = LN(x + drop(MHA(x)))
        x = LN(x + drop(FFN(x)))

    Arguments are those of `PairBlock`.
    """

    attention_class = BidirectionalSelfAttention
    attention: BidirectionalSelfAttention

    def call(self, x: Any, lengths: Any, training: bool | None = None) -> Any:
        """float[B, S, D] → float[B, S, D]; tokens after `lengths`, int32[B], are padding."""
        # Computed outside the attention layer: TensorFlow sums gradients in the order of operation names,
        # and a new order would change the last bits of resumed training.
        inputs = self.sublayer_input(x, self.norm1)
        keys_and_values = self.attention.keys_and_values(inputs)
        attended = self.attention(inputs, keys_and_values, lengths, training=training)
        x = self.residual(x, self.dropout1(attended, training=training), self.norm1)
        return self.add_feed_forward(x, training)


@keras.saving.register_keras_serializable("minigpt")
class DecoderBlock(PairBlock):
    """A layer of the decoder (Vaswani et al. 2017, section 3.1).

    Padding after a target has no effect on the tokens before it.

        x = LN(x + drop(MHA(x)))            causal self-attention
        x = LN(x + drop(MHA(x, source)))    cross-attention
        x = LN(x + drop(FFN(x)))

    Arguments are those of `PairBlock`.
    """

    attention_class = CausalSelfAttention
    attention: CausalSelfAttention

    def build_parts(self) -> None:
        super().build_parts()
        policy = self.dtype_policy
        self.cross_attention = self.build_attention(CrossAttention, "cross_attention")
        self.cross_norm = build_norm(self.config, "cross_norm", policy)
        self.cross_dropout = Dropout(self.config.dropout_rate, dtype=policy)

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
        """Computes the block with earlier tokens in a cache.

        Args:
          x: float[B, T, D].
          source, lengths: `cross_attention.keys_and_values` of the encoder's output; int32[B], its tokens.
          cache, index: as for `SelfAttention.call_with_cache`.
        Returns:
          float[B, T, D], and the new cache (None without a cache).
        """
        inputs = self.sublayer_input(x, self.norm1)
        attended, cache, _ = self.attention.call_with_cache(inputs, cache, index, training)
        x = self.residual(x, self.dropout1(attended, training=training), self.norm1)
        inputs = self.sublayer_input(x, self.cross_norm)
        attended = self.cross_attention(inputs, source, lengths, training=training)
        x = self.residual(x, self.cross_dropout(attended, training=training), self.cross_norm)
        return self.add_feed_forward(x, training), cache
