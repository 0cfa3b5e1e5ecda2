"""Arithmetic of unsigned 32-bit words in int64 tensors: ONNX Runtime multiplies no uint32."""

from typing import Any

import tensorflow as tf

MASK = 0xFFFFFFFF


def multiply(words: Any, factor: int) -> tuple[Any, Any]:
    """Multiplies words by a constant; no product of the computation exceeds 2^49.

    Args:
      words: int64, from 0 to 2^32 - 1.
      factor: from 0 to 2^32 - 1.
    Returns:
      int64, the upper and the lower word of each product.
    """
    lower = words * (factor & 0xFFFF)
    upper = words * (factor >> 16) + lower // 2**16
    return upper // 2**16, low_bits(upper, 16) * 2**16 + low_bits(lower, 16)


def low_bits(words: Any, bits: int) -> Any:
    """Returns the lowest bits of int64."""
    return tf.bitwise.bitwise_and(words, tf.constant(2**bits - 1, tf.int64))


def xor(first: Any, second: Any) -> Any:
    """Returns the bits in which words differ; constants are converted to int64."""
    return tf.bitwise.bitwise_xor(tf.cast(first, tf.int64), tf.cast(second, tf.int64))


def rotate_left(words: Any, bits: int) -> Any:
    """Rotates words of 32 bits."""
    return low_bits(words, 32 - bits) * 2**bits + words // 2 ** (32 - bits)
