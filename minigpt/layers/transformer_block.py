"""The blocks of a GPT: attention and a feed-forward network, each with a residual connection."""

from typing import Any, ClassVar

import keras

from minigpt.config import TransformerConfig
from minigpt.config.model import split_settings
from minigpt.layers.activations import ACTIVATIONS
from minigpt.layers.attention import Attention, CausalSelfAttention
from minigpt.layers.dense import Dense
from minigpt.layers.norms import build_norm


class Block(keras.layers.Layer):
    """Base class of all blocks: attention, a feed-forward network, two norms and two dropouts.

    The arguments of the Keras example work too: `TransformerBlock(embed_dim, num_heads, ff_dim,
    dropout_rate=0.1)`, with other settings by keyword. In that case `activation` is "relu" by default.

    Args:
      config: the description of the transformer; or `embed_dim`, see above.
      sizes: empty, or the other arguments of the Keras example.
      kernel_initializer: of all matrices except the two of `output_initializer`.
      output_initializer: of the matrices whose product is added to the shortcut; the same if None.
    Raises:
      ValueError: a setting is not valid.
    """

    attention_class: type[Attention]
    # The settings that the class implies, for the arguments of the Keras example.
    implied_settings: ClassVar[dict[str, Any]]

    def __init__(
        self,
        config: TransformerConfig | int | None = None,
        *sizes: Any,
        kernel_initializer: Any = "glorot_uniform",
        output_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(config, TransformerConfig):
            sizes = sizes if config is None else (config, *sizes)
            arguments = _keras_example_arguments(*sizes, **kwargs)
            config, kwargs = split_settings(arguments, **self.implied_settings)
        super().__init__(**kwargs)
        self.config = config = config.resolved()
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.output_initializer = keras.initializers.get(output_initializer or kernel_initializer)

        # Keras saves weights by the names of attributes and in the order of their assignment.
        policy = self.dtype_policy
        self.attention = self.build_attention(self.attention_class, "attention")
        self.expand = Dense(
            config.ff_size,
            ACTIVATIONS[config.activation],
            kernel_initializer=self.kernel_initializer,
            dtype=policy,
            name="expand",
        )
        self.contract = Dense(
            config.embed_dim,
            kernel_initializer=self.output_initializer,
            dtype=policy,
            name="contract",
        )
        self.norm1 = build_norm(config, "norm1", policy)
        self.norm2 = build_norm(config, "norm2", policy)
        self.ff_dropout = keras.layers.Dropout(config.ff_dropout_rate, dtype=policy)
        self.dropout1 = keras.layers.Dropout(config.dropout_rate, dtype=policy)
        self.dropout2 = keras.layers.Dropout(config.dropout_rate, dtype=policy)

    def build_attention(self, kind: type[Attention], name: str) -> Any:
        """Returns an attention layer with the settings and initializers of the block."""
        return kind(
            self.config,
            self.kernel_initializer,
            self.output_initializer,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, input_shape: Any) -> None:
        self.attention.build(input_shape)
        self.expand.build(input_shape)
        self.contract.build((*input_shape[:-1], self.config.ff_size))
        self.norm1.build(input_shape)
        self.norm2.build(input_shape)
        self.built = True

    def feed_forward(self, x: Any, training: bool | None = None) -> Any:
        """Computes the feed-forward network of each token: float[B, T, D] → float[B, T, D]."""
        return self.contract(self.ff_dropout(self.expand(x), training=training))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.config.model_dump(),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "output_initializer": keras.initializers.serialize(self.output_initializer),
        }


def _keras_example_arguments(
    embed_dim: int,
    num_heads: int,
    ff_dim: int,
    dropout_rate: float = 0.1,
    activation: str = "relu",
    **kwargs: Any,
) -> dict[str, Any]:
    """Returns the arguments of the Keras example by name, with its defaults."""
    return {
        "embed_dim": embed_dim,
        "num_heads": num_heads,
        "ff_dim": ff_dim,
        "dropout_rate": dropout_rate,
        "activation": activation,
        **kwargs,
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
    implied_settings: ClassVar[dict[str, Any]] = {"norm": "post"}
    # Whether the output is normalized; otherwise a final norm follows the last block.
    normalizes_output = True

    def call(self, x: Any, training: bool | None = None) -> Any:
        """float[B, T, D] → float[B, T, D]."""
        return self.call_with_cache(x, training=training)[0]

    def call_with_cache(
        self, x: Any, cache: Any = None, index: Any = None, training: bool | None = None
    ) -> tuple[Any, Any]:
        """Computes the block with earlier tokens in a cache.

        Args:
          x: float[B, T, D].
          cache: the cache of the attention layer, or None.
          index: int32[B], cache slot of the first token of each row.
        Returns:
          float[B, T, D], and the new cache (None without a cache).
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

    The sum itself is not normalized: a final LayerNorm belongs after the last block.
    """

    implied_settings: ClassVar[dict[str, Any]] = {"norm": "pre"}
    normalizes_output = False

    def call_with_cache(
        self, x: Any, cache: Any = None, index: Any = None, training: bool | None = None
    ) -> tuple[Any, Any]:
        attended, cache = self.attention.call_with_cache(self.norm1(x), cache, index, training)
        x = x + self.dropout1(attended, training=training)
        x = x + self.dropout2(self.feed_forward(self.norm2(x), training), training=training)
        return x, cache


# The names are those of `model.norm` in minigpt/config/model.py.
BLOCKS: dict[str, type[TransformerBlock]] = {
    "post": TransformerBlock,
    "pre": PreNormTransformerBlock,
}
