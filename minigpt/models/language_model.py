"""What models that predict tokens have in common: how they compute their loss while training."""

import abc
from typing import Any

import keras
import tensorflow as tf

from minigpt.layers.embedding import TokenAndPositionEmbedding
from minigpt.losses.chunked_crossentropy import chunked_crossentropy
from minigpt.losses.smoothed_crossentropy import SmoothedCrossentropy

# The reductions whose divisor is a number of tokens or the sum of their weights.
MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


class LanguageModel(keras.Model, abc.ABC):
    """A model whose logits are a dense head's of its latents: all tokens' scores, of each token.

    Compiled with the mean of `SparseCategoricalCrossentropy(from_logits=True)`, or of a smoothed one, no
    loss weights and no metrics, it computes that loss while training by `chunked_crossentropy`, which never
    holds all logits; compiled with anything else it trains as every Keras model does.

    Attributes:
      in_slices: whether it is the first way.
      plain_loss: the loss without label smoothing, where there is such.
    """

    embedding: TokenAndPositionEmbedding
    head: keras.layers.Dense | None
    in_slices = False
    plain_loss: keras.metrics.Mean | None = None

    @abc.abstractmethod
    def latents(self, inputs: Any, /, training: bool | None = None) -> Any:
        """What goes into the head: float[B, T, D]."""

    def logits(self, latents: Any) -> Any:
        """float[B, T, D] → float32[B, T, V]."""
        scores = self.embedding.logits(latents) if self.head is None else self.head(latents)
        return keras.ops.cast(scores, "float32")

    def compile(self, *args: Any, **kwargs: Any) -> None:
        super().compile(*args, **kwargs)
        self.in_slices = (
            _is_crossentropy(self.loss)
            and self.loss.reduction in MEANS
            and self._compile_loss._user_loss_weights is None
            and self._compile_metrics is None
        )
        smoothed = self.in_slices and isinstance(self.loss, SmoothedCrossentropy)
        # No part of the layer, which is built and takes no more state: Keras keeps its own so too.
        plain_loss = keras.metrics.Mean("plain_loss") if smoothed else None
        object.__setattr__(self, "plain_loss", plain_loss)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Keras' own, and the plain loss if it is another than the loss."""
        return [*super().metrics, *([] if self.plain_loss is None else [self.plain_loss])]

    def train_step(self, data: Any) -> dict[str, Any]:
        """One update.

        Args:
          data: inputs, targets int32[B, T], and possibly weights float32[B, T].
        """
        if not self.in_slices:
            return super().train_step(data)
        inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(data)
        targets = tf.reshape(targets, [-1])
        weights = tf.ones(tf.shape(targets)) if weights is None else tf.reshape(weights, [-1])
        # What the sum is divided by: all tokens, or their weights.
        by_weight = self.loss.reduction == "mean_with_sample_weight"
        tokens = tf.reduce_sum(weights if by_weight else tf.ones_like(weights))
        with tf.GradientTape() as tape:
            latents = self.latents(inputs, training=True)
            latents = tf.reshape(latents, [-1, latents.shape[-1]])
            kernel, bias = self._head_weights(latents.dtype)
            smoothing = getattr(self.loss, "label_smoothing", 0.0)
            loss, plain = chunked_crossentropy(latents, kernel, bias, targets, weights, smoothing)
            loss = tf.add_n([tf.math.divide_no_nan(loss, tokens), *self.losses])
            # Replicas each have a part of the batch, and their gradients are summed.
            scaled = self.optimizer.scale_loss(loss / self.distribute_strategy.num_replicas_in_sync)
        gradients = tape.gradient(scaled, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        self._loss_tracker.update_state(loss, sample_weight=tokens)
        if self.plain_loss is not None:
            self.plain_loss.update_state(tf.math.divide_no_nan(plain, tokens), sample_weight=tokens)
        return self.get_metrics_result()

    def _head_weights(self, dtype: Any) -> tuple[Any, Any]:
        """[V, D], and [V] or None."""
        if self.head is None:
            return tf.cast(self.embedding.token_embedding.embeddings, dtype), None
        bias = self.head.bias
        kernel = tf.cast(self.head.kernel, dtype)
        return tf.transpose(kernel), None if bias is None else tf.cast(bias, dtype)


def _is_crossentropy(loss: Any) -> bool:
    if type(loss) is keras.losses.SparseCategoricalCrossentropy:
        return loss.from_logits and loss.ignore_class is None
    return isinstance(loss, SmoothedCrossentropy)
