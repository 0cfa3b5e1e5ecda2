"""Unsigned 32-bit words in int64 tensors, and random numbers: ONNX Runtime multiplies no uint32.

The random numbers are those of `generation.sampling.draw`, Philox-4x32-10: Salmon et al. (2011), "Parallel
random numbers: as easy as 1, 2, 3", with the key and the counter that TensorFlow derives from two seeds.
"""

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


_MIXING_KEY = (0x3EC8F720, 0x02461E29)
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def uniform(seeds: Any, steps: Any) -> Any:
    """Returns the values of `tf.random.stateless_uniform([], [seed, step], alg="philox")`.

    Args:
      seeds, steps: int32[N].
    Returns:
      float32[N], from 0 to 1 - 2^-23.
    """
    # TensorFlow extends seeds to 64 bits.
    words = [half for each in (seeds, steps) for half in _halves(tf.cast(each, tf.int64))]
    mixed = _philox(words, _MIXING_KEY)
    zeros = tf.zeros_like(mixed[0])
    bits = _philox([zeros, zeros, mixed[2], mixed[3]], mixed[:2])[0]
    return tf.cast(low_bits(bits, 23), tf.float32) * 2.0**-23


def _halves(values: Any) -> tuple[Any, Any]:
    """Returns the lower and the upper word of int32 values that are extended to 64 bits."""
    negative = values < 0
    return tf.where(negative, values + 2**32, values), tf.where(negative, MASK, 0)


def _philox(counter: list[Any], key: Any) -> list[Any]:
    for step in range(_ROUNDS):
        first = multiply(counter[0], _FACTORS[0])
        second = multiply(counter[2], _FACTORS[1])
        keys = [
            low_bits(tf.cast(word, tf.int64) + step * increment, 32)
            for word, increment in zip(key, _KEY_STEPS, strict=True)
        ]
        counter = [
            xor(xor(second[0], counter[1]), keys[0]),
            second[1],
            xor(xor(first[0], counter[3]), keys[1]),
            first[1],
        ]
    return counter
