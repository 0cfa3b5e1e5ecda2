"""Token ids to vectors that know their place."""

from typing import Any

import keras
import numpy as np
from keras import ops


def sinusoid(max_len: int, embed_dim: int) -> np.ndarray:
    """The fixed table of Vaswani et al. 2017, section 3.5.

    PE[pos, 2i] = sin(pos / 10000^(2i/D)), PE[pos, 2i+1] = cos(pos / 10000^(2i/D)).

    Returns:
      float32[max_len, D].
    """
    angle = np.arange(max_len)[:, None] / 10000 ** (np.arange(0, embed_dim, 2) / embed_dim)
    table = np.empty((max_len, embed_dim))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle)[:, : embed_dim // 2]
    return table.astype("float32")


@keras.saving.register_keras_serializable("minigpt")
class TokenAndPositionEmbedding(keras.layers.Layer):
    """The sum of a token's vector and its position's vector.

    From the Keras example "Text generation with a miniature GPT".

    Args:
      max_len: number of positions.
      vocab_size: V, number of token ids.
      embed_dim: D, width of a vector.
      position: "learned", a trained table, or "sinusoidal", a fixed one.
      dropout_rate: share of the sum's entries dropped while training.
      scale: whether a token's vector is multiplied by sqrt(D) (Vaswani et al. 2017, section 3.4).
      initializer: of both tables.
    """

    def __init__(
        self,
        max_len: int,
        vocab_size: int,
        embed_dim: int,
        position: str = "learned",
        dropout_rate: float = 0.0,
        scale: bool = False,
        initializer: Any = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if position not in ("learned", "sinusoidal"):
            raise ValueError(f"`position` must be 'learned' or 'sinusoidal'. Received: {position}")
        self.max_len = max_len
        self.vocab_size = vocab_size
        self.embed_dim = embed_dim
        self.position = position
        self.dropout_rate = dropout_rate
        self.scale = scale
        self.initializer = keras.initializers.get(initializer)
        self.token_embedding = keras.layers.ReversibleEmbedding(
            vocab_size,
            embed_dim,
            embeddings_initializer=initializer,
            dtype=self.dtype_policy,
            name="token_embedding",
        )
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        self.token_embedding.build(input_shape)
        if self.position == "learned":
            self.position_table = self.add_weight(
                shape=(self.max_len, self.embed_dim),
                initializer=self.initializer,
                name="position_embedding",
            )
        self.built = True

    def call(self, token_ids: Any, index: Any = None, training: bool | None = None) -> Any:
        """Embeds.

        Args:
          token_ids: int32[B, T], T ≤ max_len, each in 0..V-1.
          index: int32[B], position of each row's first token; 0 if None.
        Returns:
          float[B, T, D].
        Raises:
          ValueError: if T is over max_len.
        """
        length = token_ids.shape[1]
        if length is not None and length > self.max_len:
            raise ValueError(
                f"A sequence may have at most max_len = {self.max_len} tokens. "
                f"Received: {length} tokens"
            )
        if self.position == "learned":
            table = ops.cast(self.position_table, self.compute_dtype)
        else:
            table = ops.convert_to_tensor(
                sinusoid(self.max_len, self.embed_dim), self.compute_dtype
            )
        if index is None:
            positions = table[: ops.shape(token_ids)[1]]
        else:
            positions = ops.take(
                table, index[:, None] + ops.arange(ops.shape(token_ids)[1]), axis=0
            )
        tokens = self.token_embedding(token_ids)
        if self.scale:
            tokens = tokens * self.embed_dim**0.5
        return self.dropout(tokens + positions, training=training)

    def logits(self, latents: Any) -> Any:
        """Scores each token by its vector's product with `latents`: a tied head.

        Args:
          latents: float[B, T, D].
        Returns:
          float[B, T, V].
        """
        return self.token_embedding(latents, reverse=True)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape, self.embed_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_len": self.max_len,
            "vocab_size": self.vocab_size,
            "embed_dim": self.embed_dim,
            "position": self.position,
            "dropout_rate": self.dropout_rate,
            "scale": self.scale,
            "initializer": keras.initializers.serialize(self.initializer),
        }
