"""Blocks: attention and a feed-forward network, each with a residual connection."""

from typing import Any, ClassVar

import keras
from keras import ops

from minigpt.config import GPTConfig
from minigpt.models.layers.arguments import MODEL_NAMES, DescribedLayer, checked_arguments
from minigpt.models.layers.attention import (
    Attention,
    BidirectionalSelfAttention,
    CausalSelfAttention,
    CrossAttention,
    SelfAttention,
)
from minigpt.models.layers.dropout import Dropout
from minigpt.models.layers.ngrams import CausalConvolution
from minigpt.models.layers.variants import ACTIVATIONS, build_norm, gated


class Block(DescribedLayer):
    """Base class of all blocks: attention, a feed-forward network, two norms and two dropouts.

    With `block = "post_norm"` the sum of a sublayer and its shortcut is normalized, otherwise the input of
    the sublayer. With `block = "modern"` there are no biases, and the feed-forward network is gated.
    """

    attention_class: type[Attention]
    # Settings that have these values unless others are given.
    default_settings: ClassVar[dict[str, Any]]

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        ff_dim: int,
        dropout_rate: float = 0.1,
        activation: str | None = None,
        *,
        kernel_initializer: Any = "glorot_uniform",
        output_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        kwargs |= {"embed_dim": embed_dim, "num_heads": num_heads, "ff_dim": ff_dim}
        kwargs |= {"dropout_rate": dropout_rate, "activation": activation}
        initializers = kernel_initializer, output_initializer
        defaults = {"activation": "relu", **self.default_settings}
        super().__init__(kwargs, *initializers, **defaults)
        self.build_parts()

    def build_parts(self) -> None:
        """Creates the layers."""
        # Keras saves weights by the names of attributes and in the order of their assignment.
        config, policy = self.config, self.dtype_policy
        self.attention = self.build_attention(self.attention_class, "attention")
        self.activation = ACTIVATIONS[config.activation]
        width, function = config.ff_size, self.activation
        if config.is_modern:
            # One matrix product computes the gate and the values: this is faster than two.
            width, function = 2 * width, gated(function)
        self.expand = self.dense(width, self.kernel_initializer, "expand", function)
        self.contract = self.dense(config.embed_dim, self.output_initializer, "contract")
        self.norm1 = build_norm(config, "norm1", policy)
        self.norm2 = build_norm(config, "norm2", policy)
        self.ff_dropout = Dropout(config.ff_dropout_rate, dtype=policy)
        self.dropout1 = Dropout(config.dropout_rate, dtype=policy)
        self.dropout2 = Dropout(config.dropout_rate, dtype=policy)

    def build_attention(self, kind: type[Attention], name: str) -> Any:
        """Returns an attention layer with the settings and initializers of the block."""
        return kind(
            **self.config.model_dump(),
            kernel_initializer=self.kernel_initializer,
            output_initializer=self.output_initializer,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, input_shape: Any) -> None:
        # Keras checks the input of each call. Otherwise a norm would broadcast an input of another width.
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: self.config.embed_dim})
        self.attention.build(input_shape)
        self.expand.build(input_shape)
        ff_size = self.config.ff_size
        # Muon updates the matrix of a gate separately, as if it belonged to another layer.
        self.expand.kernel.muon_parts = (ff_size,) * (self.expand.units // ff_size)
        self.contract.build((*input_shape[:-1], ff_size))
        self.norm1.build(input_shape)
        self.norm2.build(input_shape)
        self.built = True

    def feed_forward(self, x: Any, training: bool | None = None) -> Any:
        """Computes the feed-forward network of each token: float[B, T, D] → float[B, T, D].

        It is W₂ f(W₁ x), with biases; in a modern block, W₂ (f(W₁ x) ⊙ W₃ x) (Shazeer 2020, SwiGLU).
        """
        return self.contract(self.ff_dropout(self.expand(x), training=training))

    def sublayer_input(self, x: Any, norm: Any) -> Any:
        """Returns the input of a sublayer, normalized except in a post-norm block."""
        return x if self.config.block == "post_norm" else norm(x)

    def residual(self, x: Any, output: Any, norm: Any) -> Any:
        """Adds the output of a sublayer to its shortcut; the sum is normalized in a post-norm block."""
        return norm(x + output) if self.config.block == "post_norm" else x + output

    def add_feed_forward(self, x: Any, training: bool | None = None) -> Any:
        """Computes the second sublayer with its shortcut: float[B, T, D] → float[B, T, D]."""
        output = self.feed_forward(self.sublayer_input(x, self.norm2), training)
        return self.residual(x, self.dropout2(output, training=training), self.norm2)


@keras.saving.register_keras_serializable("minigpt")
class TransformerBlock(Block):
    """A block of a GPT; by default, the post-norm block of the Keras example.

    `block = "post_norm"` (Vaswani et al. 2017, section 3.1):

        x = LN(x + drop(MHA(x)))
        x = LN(x + drop(FFN(x)))

    `block = "pre_norm"`, of GPT-2 (Radford et al. 2019, section 2.3). The sum itself is not normalized, so
    the model has a final norm after the last block.

        x = x + drop(MHA(LN(x)))
        x = x + drop(FFN(LN(x)))

    `block = "modern"`, of Qwen3 (Yang et al. 2025): pre-norm, with RMSNorm, a gated network and no biases.

        x = x + drop(MHA(RMSNorm(x)))       queries and keys of each head are normalized
        x = x + drop(SwiGLU(RMSNorm(x)))

    With `convolution`, the input of each sublayer is first replaced by `CausalConvolution` of it.

    Args:
      embed_dim: D.
      num_heads: H.
      ff_dim: F; `feed_forward_dim` is the same argument.
      dropout_rate: share of each sublayer's output that is dropped in training; `rate` and `dropout` are
        the same argument.
      activation: of the feed-forward network, a name in `ACTIVATIONS`; if None, "relu" or, in a modern
        block, "silu".
      causal: whether each token attends only to the tokens before it and to itself, as text generation
        needs it. If False, it attends to all tokens, as a classifier of texts does, and the block cannot
        decode with a cache. Tokens attend to padding too, as in the Keras example "Text classification
        with Transformer".
      kernel_initializer: of all matrices except the two of `output_initializer`. Each is drawn separately,
        queries, keys and values too.
      output_initializer: of the matrices whose product is added to the shortcut; the same if None.
      **kwargs: other settings of `[model]` (docs/settings.md) and the arguments of `keras.layers.Layer`.
        The layer reads `block`, `head_dim` (K; `key_dim` is the same argument), `value_dim`,
        `num_kv_heads`, `attention_dropout_rate`, `ff_dropout_rate`, `norm_epsilon`, `qkv_bias`,
        `position`, `rotary_base`, `convolution` (needs `causal`) and `value_residual`: such a block needs
        `first_values`. If `head_dim` is not given, each head of a post-norm block has the
        full width D, as in the Keras example; in a pre-norm or a modern block, K = D / H.
    Raises:
      TypeError: an argument is missing or given twice.
      ValueError: a setting is not valid, or an argument is unknown.
    """

    config: GPTConfig
    attention: SelfAttention
    convolution1: CausalConvolution | None = None
    convolution2: CausalConvolution | None = None
    default_settings: ClassVar[dict[str, Any]] = {"block": "post_norm"}

    @checked_arguments(MODEL_NAMES)
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        ff_dim: int,
        dropout_rate: float = 0.1,
        activation: str | None = None,
        causal: bool = True,
        **kwargs: Any,
    ) -> None:
        self.causal = causal
        self.attention_class = CausalSelfAttention if causal else SelfAttention
        super().__init__(embed_dim, num_heads, ff_dim, dropout_rate, activation, **kwargs)
        for name in ("convolution", "value_residual"):
            if not causal and getattr(self.config, name):
                raise ValueError(f"`{name}` needs causal = True")

    def build_parts(self) -> None:
        super().build_parts()
        policy = self.dtype_policy
        if taps := self.config.convolution:
            self.convolution1 = CausalConvolution(taps, dtype=policy, name="convolution1")
            self.convolution2 = CausalConvolution(taps, dtype=policy, name="convolution2")

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        for convolution in (self.convolution1, self.convolution2):
            if convolution is not None:
                convolution.build(input_shape)

    def call(self, x: Any, training: bool | None = None) -> Any:
        """float[B, T, D] → float[B, T, D]."""
        return self.call_with_cache(x, training=training)[0]

    def call_with_cache(
        self,
        x: Any,
        cache: Any = None,
        index: Any = None,
        training: bool | None = None,
        first_values: Any = None,
        starts: Any = None,
    ) -> tuple[Any, Any, Any]:
        """Computes the block, with arguments as for `SelfAttention.call_with_cache`.

        Returns:
          float[B, T, D]; the new cache (None without a cache); and the values of these tokens.
        """
        attention_cache, before1, before2 = cache or (None, None, None)
        inputs = self.sublayer_input(x, self.norm1)
        inputs, before1 = convolve(self.convolution1, inputs, before1, index, starts)
        attended, attention_cache, values = self.attention.call_with_cache(
            inputs, attention_cache, index, training, first_values, starts
        )
        x = self.residual(x, self.dropout1(attended, training=training), self.norm1)
        inputs = self.sublayer_input(x, self.norm2)
        inputs, before2 = convolve(self.convolution2, inputs, before2, index, starts)
        output = self.feed_forward(inputs, training)
        x = self.residual(x, self.dropout2(output, training=training), self.norm2)
        return x, cache and (attention_cache, before1, before2), values

    def empty_cache(self, batch_size: Any, max_len: int) -> tuple[Any, Any, Any]:
        """Returns the cache of no tokens: that of attention, and the inputs of the two convolutions.

        The latter are zeros[B, 1, max_len, D], or an empty tuple without convolutions.
        """
        shape = (batch_size, 1, max_len, self.config.embed_dim)
        inputs = ops.zeros(shape, self.compute_dtype) if self.config.convolution else ()
        return self.attention.empty_cache(batch_size, max_len), inputs, inputs

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "causal": self.causal}


def convolve(
    convolution: CausalConvolution | None, x: Any, cache: Any, index: Any, starts: Any
) -> tuple[Any, Any]:
    """Applies the convolution, if there is one, to a sublayer's input."""
    return (x, cache) if convolution is None else convolution(x, cache, index, starts)


# Files of Keras models contain the names of these classes, also in the paths of weights.
@keras.saving.register_keras_serializable("minigpt")
class PreNormTransformerBlock(TransformerBlock):
    """`TransformerBlock` with the default `block = "pre_norm"`."""

    default_settings: ClassVar[dict[str, Any]] = {"block": "pre_norm"}


@keras.saving.register_keras_serializable("minigpt")
class ModernTransformerBlock(TransformerBlock):
    """`TransformerBlock` with the default `block = "modern"`."""

    default_settings: ClassVar[dict[str, Any]] = {"block": "modern"}


# The names are those of `model.block` in minigpt/config/model.py.
BLOCKS: dict[str, type[TransformerBlock]] = {
    "post_norm": TransformerBlock,
    "pre_norm": PreNormTransformerBlock,
    "modern": ModernTransformerBlock,
}


class PairBlock(Block):
    """Base class of the two blocks. Arguments are those of `TransformerBlock`, except `causal`.

    If `head_dim` is not given, K = D / H. The calls are given lengths.
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
