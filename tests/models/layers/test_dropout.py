"""Dropout masks are a function of seed, batch and row, however a batch is divided."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from minigpt.models.layers.dropout import Dropout, dropout_masks, random_bits

ROWS, SHAPE = 6, (5, 7)  # 35 numbers a row: not a multiple of the four that are drawn together.


def masks(layer: Dropout, batch: int, first: int, rows: int, jit: bool = False) -> np.ndarray:
    @tf.function(jit_compile=jit, autograph=False)
    def draw(first):
        with dropout_masks(batch, first):
            return layer(tf.ones((rows, *SHAPE)), training=True)

    return draw(tf.constant(first)).numpy()


@pytest.fixture
def layer() -> Dropout:
    keras.utils.set_random_seed(3)
    return Dropout(0.4)


@pytest.mark.parametrize(("parts", "jit"), [((0, 3), True), ((0, 1, 4), False)])
def test_rows_have_the_same_mask_in_any_division(layer, parts, jit):
    whole = masks(layer, 9, 0, ROWS)
    divided = [
        masks(layer, 9, first, stop - first, jit)
        for first, stop in zip(parts, (*parts[1:], ROWS), strict=True)
    ]
    np.testing.assert_array_equal(np.concatenate(divided), whole)


def test_masks_of_rows_batches_layers_and_calls_differ(layer):
    one = masks(layer, 9, 0, ROWS)
    assert len(np.unique(one.reshape(ROWS, -1), axis=0)) == ROWS
    assert (masks(layer, 10, 0, ROWS) != one).any()
    assert (masks(Dropout(0.4), 9, 0, ROWS) != one).any()
    with dropout_masks(9):
        first, second = (layer(tf.ones((ROWS, *SHAPE)), training=True) for _ in range(2))
    np.testing.assert_array_equal(first, one)
    assert (second.numpy() != one).any()


def test_share_and_scale_of_what_is_kept(layer):
    with dropout_masks(0):
        kept = layer(tf.ones((100, 1000)), training=True).numpy()
    assert set(np.unique(kept)) == {0.0, np.float32(1 / 0.6)}
    # Five standard deviations of the mean of 100,000 draws.
    assert abs((kept > 0).mean() - 0.6) < 5 * (0.4 * 0.6 / 100_000) ** 0.5
    # Neighbours are independent: rows, and entries of a row.
    for other in (np.roll(kept, 1, 0), np.roll(kept, 1, 1)):
        both = ((kept > 0) & (other > 0)).mean()
        assert abs(both - 0.36) < 5 * (0.36 * 0.64 / 100_000) ** 0.5


def test_bits_are_those_of_philox():
    """NumPy's Philox has keys and counters of 64 bits, TensorFlow's of 32: only the scheme is compared."""
    key = tf.constant([(7 << 32) | 5], tf.uint64)
    right = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[3, 8], key=key, counter=tf.zeros([2], tf.uint64), alg=1, dtype=tf.uint32
    )
    np.testing.assert_array_equal(random_bits((3, 8), tf.constant(7), 5, 0), right)
    np.testing.assert_array_equal(random_bits((2, 8), tf.constant(7), 5, 1), right[1:])
