"""Position encodings, by name.

To add one, see docs/adding-to-the-model.md.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from minigpt.models.layers.dense import own_initializer


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

    def score_bias(self, queries: Any, keys: Any, num_heads: int) -> Any:
        """Returns what is added to the scores of a self-attention layer; None, the default, adds nothing.

        Args:
          queries: int32[B, T] or [1, T], position of the token of each query.
          keys: int32[S], position of the token of each key.
          num_heads: H.
        Returns:
          float32, broadcast to [B, H, T, S]; or None.
        """
        return None


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
        first, second = x[..., :half], x[..., half:]
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
