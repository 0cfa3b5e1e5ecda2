"""Attention and a feed-forward network, each with a shortcut around it."""

from typing import Any

import keras

from minigpt.layers.activations import ACTIVATIONS
from minigpt.layers.attention import Attention, CausalSelfAttention
from minigpt.layers.dense import Dense


class Block(keras.layers.Layer):
    """The parts that all blocks have: attention and a feed-forward network, two norms, two dropouts.

    Args:
      embed_dim: D.
      num_heads: H.
      ff_dim: F, inner width of FFN = Dense(F, activation) → Dense(D).
      dropout_rate: share dropped of both sublayers' outputs while training.
      head_dim: K, width of a head; D // H if None.
      activation: of the FFN: a name in `ACTIVATIONS`.
      value_dim: U, width of a head's values; K if None.
      qkv_bias: whether the projection to queries, keys and values adds a bias.
      attention_dropout_rate: share of the attention weights dropped while training.
      ff_dropout_rate: share of the FFN's inner activations dropped while training.
      norm_epsilon: of LayerNorm, inside the root.
      kernel_initializer: of every matrix but these:
      output_initializer: of the two matrices whose product is added to `x`; the same if None.
    """

    # What attends in a kind of block.
    attention_class: type[Attention]

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        ff_dim: int,
        dropout_rate: float = 0.1,
        head_dim: int | None = None,
        activation: str = "relu",
        value_dim: int | None = None,
        qkv_bias: bool = True,
        attention_dropout_rate: float = 0.0,
        ff_dropout_rate: float = 0.0,
        norm_epsilon: float = 1e-6,
        kernel_initializer: Any = "glorot_uniform",
        output_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if head_dim is None and embed_dim % num_heads:
            raise ValueError(
                "`num_heads` must divide `embed_dim` unless `head_dim` is given. "
                f"Received: embed_dim={embed_dim}, num_heads={num_heads}"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.ff_dim = ff_dim
        self.dropout_rate = dropout_rate
        self.head_dim = head_dim or embed_dim // num_heads
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"`activation` must be one of {', '.join(ACTIVATIONS)}. Received: {activation}"
            )
        self.activation = activation
        self.value_dim = value_dim or self.head_dim
        self.qkv_bias = qkv_bias
        self.attention_dropout_rate = attention_dropout_rate
        self.ff_dropout_rate = ff_dropout_rate
        self.norm_epsilon = norm_epsilon
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.output_initializer = keras.initializers.get(output_initializer or kernel_initializer)

        policy = self.dtype_policy
        self.attention = self.attention_class(
            num_heads,
            self.head_dim,
            self.value_dim,
            qkv_bias,
            attention_dropout_rate,
            self.kernel_initializer,
            self.output_initializer,
            dtype=policy,
            name="attention",
        )
        self.expand = Dense(
            ff_dim,
            ACTIVATIONS[activation],
            kernel_initializer=self.kernel_initializer,
            dtype=policy,
            name="expand",
        )
        self.contract = Dense(
            embed_dim, kernel_initializer=self.output_initializer, dtype=policy, name="contract"
        )
        self.norm1 = keras.layers.LayerNormalization(
            epsilon=norm_epsilon, dtype=policy, name="norm1"
        )
        self.norm2 = keras.layers.LayerNormalization(
            epsilon=norm_epsilon, dtype=policy, name="norm2"
        )
        self.ff_dropout = keras.layers.Dropout(ff_dropout_rate, dtype=policy)
        self.dropout1 = keras.layers.Dropout(dropout_rate, dtype=policy)
        self.dropout2 = keras.layers.Dropout(dropout_rate, dtype=policy)

    def build(self, input_shape: Any) -> None:
        self.attention.build(input_shape)
        self.expand.build(input_shape)
        self.contract.build((*input_shape[:-1], self.ff_dim))
        self.norm1.build(input_shape)
        self.norm2.build(input_shape)
        self.built = True

    def feed_forward(self, x: Any, training: bool | None = None) -> Any:
        """float[B, T, D] → float[B, T, D], each token by itself."""
        return self.contract(self.ff_dropout(self.expand(x), training=training))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "embed_dim": self.embed_dim,
            "num_heads": self.num_heads,
            "ff_dim": self.ff_dim,
            "dropout_rate": self.dropout_rate,
            "head_dim": self.head_dim,
            "activation": self.activation,
            "value_dim": self.value_dim,
            "qkv_bias": self.qkv_bias,
            "attention_dropout_rate": self.attention_dropout_rate,
            "ff_dropout_rate": self.ff_dropout_rate,
            "norm_epsilon": self.norm_epsilon,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "output_initializer": keras.initializers.serialize(self.output_initializer),
        }


@keras.saving.register_keras_serializable("minigpt")
class TransformerBlock(Block):
    """The post-norm block of the Keras example (Vaswani et al. 2017, section 3.1).

        x = LN(x + drop(MHA(x)))
        x = LN(x + drop(FFN(x)))

    Arguments are those of `Block`.
    """

    attention_class = CausalSelfAttention
    attention: CausalSelfAttention

    def call(self, x: Any, training: bool | None = None) -> Any:
        """float[B, T, D] → float[B, T, D]."""
        return self.call_with_cache(x, training=training)[0]

    def call_with_cache(
        self, x: Any, cache: Any = None, index: Any = None, training: bool | None = None
    ) -> tuple[Any, Any]:
        """The same, with the tokens of earlier calls in a cache or without.

        Args:
          x: float[B, T, D].
          cache: the attention's, or None.
          index: int32[B], slot of each row's first token in the cache.
        Returns:
          float[B, T, D], and the new cache (None if none was given).
        """
        attended, cache = self.attention.call_with_cache(x, cache, index, training)
        x = self.norm1(x + self.dropout1(attended, training=training))
        x = self.norm2(x + self.dropout2(self.feed_forward(x, training), training=training))
        return x, cache


@keras.saving.register_keras_serializable("minigpt")
class PreNormTransformerBlock(TransformerBlock):
    """The pre-norm block of GPT-2 (Radford et al. 2019, section 2.3).

        x = x + drop(MHA(LN(x)))
        x = x + drop(FFN(LN(x)))

    Nothing normalises the sum itself, so a last LayerNorm belongs behind the last block.
    """

    def call_with_cache(
        self, x: Any, cache: Any = None, index: Any = None, training: bool | None = None
    ) -> tuple[Any, Any]:
        attended, cache = self.attention.call_with_cache(self.norm1(x), cache, index, training)
        x = x + self.dropout1(attended, training=training)
        x = x + self.dropout2(self.feed_forward(self.norm2(x), training), training=training)
        return x, cache
