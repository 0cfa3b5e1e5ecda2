"""Seconds of compilation and of a batch, from the times of batches: against values computed by hand."""

import pytest

from minigpt.insight.forecast.measuring import seconds_of_batches


def test_one_shape():
    assert seconds_of_batches(["a"] * 4, 1, [10.0, 2.0, 1.5, 9.0]) == pytest.approx((2.0, 8.0))


def test_each_shape_compiles():
    shapes, seconds = ["a", "b", "a", "b", "a"], [11.0, 5.0, 1.0, 2.0, 3.0]
    assert seconds_of_batches(shapes, 2, seconds) == pytest.approx((2.0, 9.0 + 3.0))


def test_a_shape_that_was_not_seen_is_like_the_later_ones():
    shapes, seconds = ["a", "b", "a", "c"], [11.0, 5.0, 1.0, 7.0]
    assert seconds_of_batches(shapes, 5, seconds) == pytest.approx((1.0, 10.0 + 4 * 5.0))
    assert seconds_of_batches(["a", "a"], 3, [11.0, 1.0]) == pytest.approx((1.0, 3 * 10.0))


def test_every_batch_has_another_shape():
    assert seconds_of_batches(["a", "b"], 2, [11.0, 5.0]) == pytest.approx((8.0, 3.0))
