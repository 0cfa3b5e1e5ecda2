"""What a setting chooses by its name: activation functions, norms, position encodings.

To add one, see docs/adding-to-the-model.md.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from minigpt.config import TransformerConfig
from minigpt.models.layers.dense import own_initializer


@keras.saving.register_keras_serializable("minigpt")
def gelu_tanh(x: Any) -> Any:
    """Computes GELU in its tanh form (Hendrycks & Gimpel 2016), as in GPT-2.

    0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))).
    """
    return keras.activations.gelu(x, approximate=True)


@keras.saving.register_keras_serializable("minigpt")
def relu_squared(x: Any) -> Any:
    """Computes max(0, x)² (So et al. 2021, Primer)."""
    return ops.square(ops.relu(x))


def gated(activation: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the function float[..., 2 F] → float[..., F]: f(gate) ⊙ values (Shazeer 2020, SwiGLU)."""

    def function(x: Any) -> Any:
        gate, values = ops.split(x, 2, axis=-1)
        return activation(gate) * values

    return function


# The names are those of `model.activation` in minigpt/config/model.py.
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": keras.activations.relu,
    "gelu": keras.activations.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": keras.activations.silu,
    "relu_squared": relu_squared,
}


def build_norm(config: TransformerConfig, name: str, dtype: Any) -> keras.layers.Layer:
    """Returns a layer that normalizes vectors: RMSNorm in a modern block, otherwise LayerNorm."""
    if config.is_modern:
        return keras.layers.RMSNormalization(epsilon=config.norm_epsilon, dtype=dtype, name=name)
    return keras.layers.LayerNormalization(epsilon=config.norm_epsilon, dtype=dtype, name=name)


class PositionEncoding:
    """How a model encodes the positions of tokens. A kind overrides the methods that it needs.

    The objects have no state. Trained weights belong to the embedding layer.
    """

    def build(self, embedding: keras.layers.Layer) -> None:
        """Adds the weights of the encoding to a `TokenAndPositionEmbedding`."""

    def table(self, embedding: keras.layers.Layer) -> Any:
        """Returns the vectors that are added to the token vectors.

        float[max_len, D] in the compute dtype of the built `TokenAndPositionEmbedding`; None adds nothing.
        """
        return None

    def rotate(self, x: Any, positions: Any, base: float) -> Any:
        """Encodes positions in the queries or the keys of a self-attention layer; returns `x` by default.

        Args:
          x: float[B, H, T, K].
          positions: int32[B, T] or [1, T], position of each token.
          base: the setting `rotary_base`.
        """
        return x


class LearnedPositions(PositionEncoding):
    """A trained vector for each position."""

    def build(self, embedding: keras.layers.Layer) -> None:
        embedding.position_table = embedding.add_weight(
            shape=(embedding.max_len, embedding.embed_dim),
            initializer=own_initializer(embedding.initializer),
            name="position_embedding",
        )

    def table(self, embedding: keras.layers.Layer) -> Any:
        return ops.cast(embedding.position_table, embedding.compute_dtype)


class SinusoidalPositions(PositionEncoding):
    """A fixed vector for each position: `sinusoid`."""

    def table(self, embedding: keras.layers.Layer) -> Any:
        table = sinusoid(embedding.max_len, embedding.embed_dim)
        return ops.convert_to_tensor(table, embedding.compute_dtype)


class RotaryPositions(PositionEncoding):
    """Rotates queries and keys by angles proportional to the position (Su et al. 2021, RoFormer).

    The product of a query and a key then depends on the distance of their tokens. As in GPT-NeoX and Qwen3,
    entry i is paired with entry i + K/2 and rotated by position * base^(-2i/K).
    """

    def rotate(self, x: Any, positions: Any, base: float) -> Any:
        half = x.shape[-1] // 2
        frequencies = base ** (-np.arange(half) / half)
        # In float32: bfloat16 cannot represent positions above 256.
        angles = ops.cast(positions, "float32")[:, None, :, None] * frequencies.astype("float32")
        cos, sin = ops.cast(ops.cos(angles), x.dtype), ops.cast(ops.sin(angles), x.dtype)
        first, second = ops.split(x, 2, axis=-1)
        return ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def sinusoid(max_len: int, embed_dim: int) -> np.ndarray:
    """Returns the fixed table of Vaswani et al. 2017, section 3.5.

    PE[pos, 2i] = sin(pos / 10000^(2i/D)), PE[pos, 2i+1] = cos(pos / 10000^(2i/D)).

    Returns:
      float32[max_len, D].
    """
    angle = np.arange(max_len)[:, None] / 10000 ** (np.arange(0, embed_dim, 2) / embed_dim)
    table = np.empty((max_len, embed_dim))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle)[:, : embed_dim // 2]
    return table.astype("float32")


# The names are those of `model.position` in minigpt/config/model.py.
POSITIONS: dict[str, PositionEncoding] = {
    "learned": LearnedPositions(),
    "sinusoidal": SinusoidalPositions(),
    "rotary": RotaryPositions(),
}
