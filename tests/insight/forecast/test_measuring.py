"""Seconds of compilation and of an update, from the times of batches: against values computed by hand."""

import itertools

import pytest

from minigpt.insight.forecast.measuring import _Steps


def steps(shapes, *epochs, accumulate_steps=1):
    """What was measured: for each epoch, pairs of a batch's shape and its seconds."""
    found = _Steps(lambda number: None, len(shapes), accumulate_steps)
    found.ends = [[0.0, *itertools.accumulate(s for _, s in epoch)] for epoch in epochs]
    found.seen = [shape for epoch in epochs for shape, _ in epoch]
    return found.durations(shapes)


def test_one_shape():
    found = steps({"a": 1.0}, [("a", 10.0), ("a", 1.5)], [("a", 1.0)], [("a", 1.0), ("a", 3.0)])
    # A batch takes 2.
    assert found == pytest.approx((8.0, 8.0 - 0.5 - 1.0, 2.0))


def test_accumulated_batches():
    batches = [("a", 10.0), ("a", 1.0)], [("a", 1.0), ("a", 1.0)], [("a", 1.0), ("a", 1.0)]
    assert steps({"a": 1.0}, *batches, accumulate_steps=2) == pytest.approx((9.0, 9.0, 2.0))


def test_shapes_are_weighted_and_compile_each():
    first = [("a", 11.0), ("b", 5.0)]
    last = [("a", 1.0), ("b", 2.0), ("a", 1.0)]
    found = steps({"a": 0.25, "b": 0.75}, first, [("a", 1.0)], last)
    assert found == pytest.approx((10.0, 10.0 + 3.0, 0.25 * 1 + 0.75 * 2))


def test_a_shape_that_was_not_seen_is_like_the_later_ones():
    first = [("a", 11.0), ("b", 5.0)]
    last = [("a", 1.0), ("b", 2.0)]
    found = steps({"a": 0.5, "b": 0.25, "c": 0.25}, first, [("a", 1.0)], last)
    assert found == pytest.approx((10.0, 13.0 + 3.0, 0.5 * 1 + 0.25 * 2 + 0.25 * 1.5))


def test_a_shape_that_the_last_epoch_compiles_is_not_steady():
    last = [("a", 1.0), ("b", 9.0), ("b", 2.0)]
    found = steps({"a": 0.5, "b": 0.5}, [("a", 6.0)], [("a", 1.0)], last)
    assert found[2] == pytest.approx(0.5 * 1 + 0.5 * 2)
