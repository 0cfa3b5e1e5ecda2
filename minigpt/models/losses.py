"""Training losses: cross-entropy with label smoothing, and cross-entropy computed in chunks."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

# Reductions that divide by the number of tokens or by the sum of their weights.
MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")
# Logits of one chunk. Smaller chunks read the kernel more often; larger ones are not faster.
CHUNK_BYTES = 64 * 2**20


@keras.saving.register_keras_serializable("minigpt")
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy with a share of each target's probability spread over all V tokens.

    Label smoothing: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.

    Args:
      label_smoothing: the share, 0 ≤ share < 1. With 0 the loss equals
        `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`.
    """

    def __init__(
        self,
        label_smoothing: float,
        reduction: str = "sum_over_batch_size",
        name: str = "smoothed_crossentropy",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.label_smoothing = label_smoothing

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """int[..., T] targets and float[..., T, V] logits → float[..., T], nats."""
        log_probabilities = ops.log_softmax(y_pred)
        targets = ops.cast(y_true, "int32")[..., None]
        of_targets = ops.take_along_axis(log_probabilities, targets, axis=-1)[..., 0]
        mean = ops.mean(log_probabilities, axis=-1)
        return -(1 - self.label_smoothing) * of_targets - self.label_smoothing * mean

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def r_drop_crossentropy(logits: Any, targets: Any, weights: Any, alpha: float) -> tuple[Any, Any]:
    """Computes the cross-entropy, and how much the predictions of equal rows differ, by their dropout.

    The loss of a pair of predictions p and q is CE(p) + CE(q) + alpha / 2 (KL(p || q) + KL(q || p)):
    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", equation 4.

    Args:
      logits: float32[B, T, V].
      targets: int32[B, T]; a row that equals the row before is a pair with it.
      weights: float32[B, T], of the loss of each token.
    Returns:
      float32[] twice: the sum of weight · loss; the same without the divergence.
    """
    plain = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
    plain = tf.reduce_sum(weights * plain)
    log_probabilities = tf.nn.log_softmax(logits)
    log_p, log_q = log_probabilities[:-1], log_probabilities[1:]
    both_ways = tf.reduce_sum((tf.exp(log_p) - tf.exp(log_q)) * (log_p - log_q), axis=-1)
    is_pair = tf.reduce_all(targets[:-1] == targets[1:], axis=-1, keepdims=True)
    divergence = tf.reduce_sum(tf.where(is_pair, weights[1:] * both_ways, 0.0))
    return plain + alpha / 2 * divergence, plain


def can_be_chunked(loss: Any) -> bool:
    """Returns whether a loss of Keras can be computed with `chunked_crossentropy`."""
    if type(loss) is keras.losses.SparseCategoricalCrossentropy:
        return loss.from_logits and loss.ignore_class is None and loss.reduction in MEANS
    return isinstance(loss, SmoothedCrossentropy) and loss.reduction in MEANS


def chunked_crossentropy(
    latents: Any,
    kernel: Any,
    bias: Any,
    targets: Any,
    weights: Any,
    label_smoothing: float = 0.0,
    chunk_bytes: int = CHUNK_BYTES,
) -> tuple[Any, Any]:
    """Computes the sum over tokens of the cross-entropy of softmax(latents · kernelᵀ + bias).

    In training a small model, the logits would need most of the memory. Here they are computed for a chunk
    of tokens at a time, together with the gradients: for the logits z of a token
    and its target distribution q, the gradient of the loss is softmax(z) - q. The gradients are exact.

    Args:
      latents: float[N, D].
      kernel: float[V, D], of the same dtype.
      bias: float[V], or None.
      targets: int32[N], each in 0..V-1.
      weights: float32[N], of the loss of each token.
      label_smoothing: share of q that is spread over all V tokens.
      chunk_bytes: maximum size of the float32 logits of a chunk.
    Returns:
      float32[] twice: the sum of weight · loss; the same without smoothing, which has no gradient.
    """
    tokens = latents.shape[0] or tf.shape(latents)[0]
    vocab_size = kernel.shape[0]
    max_rows = max(1, chunk_bytes // (4 * vocab_size))
    chunks = (tokens + max_rows - 1) // max_rows
    rows = (tokens + chunks - 1) // chunks
    padding = chunks * rows - tokens

    def split(x: Any) -> Any:
        """[N, ...] → [chunks, rows, ...], padded with zeros."""
        x = tf.pad(x, [[0, padding]] + [[0, 0]] * (len(x.shape) - 1))
        return tf.reshape(x, [chunks, rows, *x.shape[1:]])

    chunked_targets, chunked_weights = split(targets), split(weights)

    if bias is None:
        bias = tf.zeros([vocab_size], kernel.dtype)
    inputs = latents, kernel, bias
    latents, kernel, bias = (tf.stop_gradient(x) for x in inputs)
    chunked_latents = split(latents)

    def add_chunk(
        i: Any, loss: Any, plain: Any, d_kernel: Any, d_bias: Any, d_latents: Any
    ) -> tuple[Any, ...]:
        h, target, weight = chunked_latents[i], chunked_targets[i], chunked_weights[i]
        logits = tf.cast(tf.matmul(h, kernel, transpose_b=True) + bias, tf.float32)
        logits -= tf.stop_gradient(tf.reduce_max(logits, axis=-1, keepdims=True))
        exponentials = tf.exp(logits)
        total = tf.reduce_sum(exponentials, axis=-1, keepdims=True)
        target_logits = tf.gather(logits, target, batch_dims=1)
        losses = tf.math.log(total[:, 0]) - target_logits
        plain += tf.reduce_sum(weight * losses)
        if label_smoothing:
            losses += label_smoothing * (target_logits - tf.reduce_mean(logits, axis=-1))
        loss += tf.reduce_sum(weight * losses)

        is_target = tf.equal(tf.range(vocab_size), target[:, None])
        q = tf.where(is_target, 1 - label_smoothing, 0.0) + label_smoothing / vocab_size
        d_logits = tf.cast((exponentials / total - q) * weight[:, None], h.dtype)
        d_latents = d_latents.write(i, tf.matmul(d_logits, kernel))
        d_kernel += tf.cast(tf.matmul(d_logits, h, transpose_a=True), tf.float32)
        d_bias += tf.reduce_sum(tf.cast(d_logits, tf.float32), axis=0)
        return i + 1, loss, plain, d_kernel, d_bias, d_latents

    zero = tf.zeros([], tf.float32)
    _, loss, plain, d_kernel, d_bias, d_latents = tf.while_loop(
        lambda i, *_: i < chunks,
        add_chunk,
        (
            0,
            zero,
            zero,
            tf.zeros(kernel.shape, tf.float32),
            tf.zeros([vocab_size], tf.float32),
            tf.TensorArray(latents.dtype, chunks, element_shape=[None, latents.shape[1]]),
        ),
    )

    d_latents = tf.reshape(d_latents.stack(), [-1, latents.shape[1]])[:tokens]
    loss = tf.stop_gradient(loss)
    # Terms of zero that have the gradients. TensorFlow keeps every `tf.custom_gradient` that was traced,
    # and with it the model, until the process ends.
    for x, gradient in zip(inputs, (d_latents, d_kernel, d_bias), strict=True):
        x, gradient = tf.cast(x, tf.float32), tf.cast(gradient, tf.float32)
        loss += tf.reduce_sum(tf.stop_gradient(gradient) * (x - tf.stop_gradient(x)))
    return loss, tf.stop_gradient(plain)
