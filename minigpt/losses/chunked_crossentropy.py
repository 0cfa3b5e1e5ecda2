"""The head and its cross-entropy in one, so that all logits are never in memory together."""

from typing import Any

import tensorflow as tf

# Of the logits that exist at a time. Smaller slices read the kernel more often, larger ones gain nothing.
SLICE_BYTES = 64 * 2**20


def chunked_crossentropy(
    latents: Any,
    kernel: Any,
    bias: Any,
    targets: Any,
    weights: Any,
    label_smoothing: float = 0.0,
    slice_bytes: int = SLICE_BYTES,
) -> tuple[Any, Any]:
    """Sums of cross-entropies of softmax(latents · kernelᵀ + bias), over the tokens.

    The logits of a vocabulary are most of what training a small model holds. Here they are made for
    some tokens at a time, and used up at once: with z a token's logits and q its target distribution,
    the gradient of its loss is softmax(z) - q, from which those of latents, kernel and bias follow in
    the same pass. They are exact; a plain loss would find the same.

    Args:
      latents: float[N, D].
      kernel: float[V, D], of the same dtype.
      bias: float[V], or None.
      targets: int32[N], each in 0..V-1.
      weights: float32[N], of each token's loss.
      label_smoothing: the share of q that is spread over all V tokens.
      slice_bytes: the most that the float32 logits of a slice may take.
    Returns:
      float32[] twice: the sum of weight · loss, and the same without smoothing, which has no gradient.
    """
    tokens = latents.shape[0] or tf.shape(latents)[0]
    size = kernel.shape[0]
    most = max(1, slice_bytes // (4 * size))
    slices = (tokens + most - 1) // most
    rows = (tokens + slices - 1) // slices
    fill = slices * rows - tokens

    def sliced(x: Any) -> Any:
        """[N, ...] → [slices, rows, ...]; what fills the last slice is 0."""
        x = tf.pad(x, [[0, fill]] + [[0, 0]] * (len(x.shape) - 1))
        return tf.reshape(x, [slices, rows, *x.shape[1:]])

    ids, shares = sliced(targets), sliced(weights)

    @tf.custom_gradient
    def summed(latents: Any, kernel: Any, bias: Any) -> Any:
        hidden = sliced(latents)

        def add_slice(
            i: Any, loss: Any, plain: Any, by_kernel: Any, by_bias: Any, by_latents: Any
        ) -> tuple[Any, ...]:
            h, target, weight = hidden[i], ids[i], shares[i]
            logits = tf.cast(tf.matmul(h, kernel, transpose_b=True) + bias, tf.float32)
            logits -= tf.stop_gradient(tf.reduce_max(logits, axis=-1, keepdims=True))
            exponentials = tf.exp(logits)
            total = tf.reduce_sum(exponentials, axis=-1, keepdims=True)
            of_target = tf.gather(logits, target, batch_dims=1)
            losses = tf.math.log(total[:, 0]) - of_target
            plain += tf.reduce_sum(weight * losses)
            if label_smoothing:
                losses += label_smoothing * (of_target - tf.reduce_mean(logits, axis=-1))
            loss += tf.reduce_sum(weight * losses)

            is_target = tf.equal(tf.range(size), target[:, None])
            q = tf.where(is_target, 1 - label_smoothing, 0.0) + label_smoothing / size
            by_logits = tf.cast((exponentials / total - q) * weight[:, None], h.dtype)
            by_latents = by_latents.write(i, tf.matmul(by_logits, kernel))
            by_kernel += tf.cast(tf.matmul(by_logits, h, transpose_a=True), tf.float32)
            by_bias += tf.reduce_sum(tf.cast(by_logits, tf.float32), axis=0)
            return i + 1, loss, plain, by_kernel, by_bias, by_latents

        zero = tf.zeros([], tf.float32)
        _, loss, plain, by_kernel, by_bias, by_latents = tf.while_loop(
            lambda i, *_: i < slices,
            add_slice,
            (
                0,
                zero,
                zero,
                tf.zeros(kernel.shape, tf.float32),
                tf.zeros([size], tf.float32),
                tf.TensorArray(latents.dtype, slices, element_shape=[None, latents.shape[1]]),
            ),
        )

        def gradients(upstream: Any, _: Any) -> tuple[Any, Any, Any]:
            found = tf.reshape(by_latents.stack(), [-1, latents.shape[1]])[:tokens]
            return (
                tf.cast(upstream * tf.cast(found, tf.float32), latents.dtype),
                tf.cast(upstream * by_kernel, kernel.dtype),
                tf.cast(upstream * by_bias, bias.dtype),
            )

        return (loss, plain), gradients

    loss, plain = summed(latents, kernel, tf.zeros([size], kernel.dtype) if bias is None else bias)
    return loss, tf.stop_gradient(plain)
