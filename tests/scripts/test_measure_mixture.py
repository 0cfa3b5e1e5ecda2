"""What a mixture of a model with an n-gram adds."""

import numpy as np
import pytest

from scripts.measure_mixture import mixed


def test_the_mixture_of_two_predictors_that_are_right_in_turn():
    # Each gives 0.9 where the other gives 0.1: half and half gives 0.5 everywhere.
    turns = np.arange(400) % 2 == 0
    model, ngram = (-np.log(np.where(right, 0.9, 0.1)) for right in (turns, ~turns))
    weight, ours, theirs, both = mixed(model, ngram)
    assert weight == pytest.approx(0.5)
    assert ours == pytest.approx(-(np.log(0.9) + np.log(0.1)) / 2) == pytest.approx(theirs)
    assert both == pytest.approx(np.log(2))


def test_an_ngram_that_knows_nothing_gets_no_weight():
    model, ngram = np.full(10, 1.0), np.full(10, 3.0)
    assert mixed(model, ngram) == pytest.approx((1.0, 1.0, 3.0, 1.0))
