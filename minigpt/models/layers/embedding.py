"""The embedding of token ids and their positions."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from minigpt.models.layers import arguments
from minigpt.models.layers.dropout import Dropout
from minigpt.models.layers.variants import POSITIONS


@keras.saving.register_keras_serializable("minigpt")
class TokenAndPositionEmbedding(keras.layers.Layer):
    """The sum of a vector for each token and a vector for its position.

    From the Keras example "Text generation with a miniature GPT".

    Args:
      max_len: number of positions; `maxlen` is the same argument.
      vocab_size: V, number of token ids.
      embed_dim: D, width of a vector.
      position: kind of position encoding, a name in `POSITIONS`.
      dropout_rate: share of the sum's entries dropped in training; `rate` and `dropout` are the same
        argument.
      scale: whether token vectors are multiplied by sqrt(D) (Vaswani et al. 2017, section 3.4).
      initializer: of the token table and of a trained position table, each drawn separately.
    Attributes:
      position_table: float32[max_len, D], with learned positions only.
    Raises:
      TypeError: an argument is missing or given twice.
      ValueError: a size is not a positive integer, `dropout_rate` is not from 0 to less than 1, or
        `position` is not a name in `POSITIONS`.
    """

    @arguments.checked_arguments(arguments.MODEL_NAMES)
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
        arguments.check_positive(max_len=max_len, vocab_size=vocab_size, embed_dim=embed_dim)
        # Checks them.
        arguments.split_settings({"dropout_rate": dropout_rate, "position": position})
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
        self.dropout = Dropout(self.dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        self.input_spec = keras.layers.InputSpec(ndim=2)
        self.token_embedding.build(input_shape)
        POSITIONS[self.position].build(self)
        self.built = True

    def call(
        self, token_ids: Any, index: Any = None, training: bool | None = None, starts: Any = None
    ) -> Any:
        """Embeds token ids.

        Args:
          token_ids: int32[B, T], T ≤ max_len, each in 0..V-1.
          index: int32[B], position of the first token of each row; 0 if None. Positions of max_len or more
            are not checked.
          starts: int32[B, T], where the text of each token begins in its row; 0 if None.
        Returns:
          float[B, T, D].
        Raises:
          ValueError: T is more than max_len.
          tf.errors.InvalidArgumentError: the same, in a graph in which T is not known, without XLA.
        """
        length = token_ids.shape[1]
        limit = f"A sequence may have at most max_len = {self.max_len} tokens"
        if length is None and index is None:
            tf.debugging.assert_less_equal(ops.shape(token_ids)[1], self.max_len, limit)
        elif length is not None and length > self.max_len:
            raise ValueError(f"{limit}. Received: {length} tokens")
        x = self.token_embedding(token_ids)
        if self.scale:
            x = x * self.embed_dim**0.5
        table = POSITIONS[self.position].table(self)
        if table is not None:
            length = ops.shape(token_ids)[1]
            if starts is not None:
                x = x + ops.take(table, ops.arange(length)[None] - starts, axis=0)
            elif index is None:
                x = x + table[:length]
            else:
                x = x + ops.take(table, index[:, None] + ops.arange(length), axis=0)
        return self.dropout(x, training=training)

    def logits(self, latents: Any) -> Any:
        """float[B, T, D] → float[B, T, V]: a tied head, the products of latents and token vectors."""
        return self.token_embedding(latents, reverse=True)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape, self.embed_dim)

    def get_config(self) -> dict[str, Any]:
        names = ("max_len", "vocab_size", "embed_dim", "position", "dropout_rate", "scale")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "initializer": keras.initializers.serialize(self.initializer),
        }
