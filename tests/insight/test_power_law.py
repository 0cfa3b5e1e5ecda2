import numpy as np
import pytest

from minigpt.insight.power_law import fit_power_law


@pytest.mark.parametrize("floor, exponent", [(0.0, 0.2), (1.5, 0.5), (2.0, 1.0)])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_finds_the_law_of_a_curve(floor, exponent, noise):
    steps = np.arange(1.0, 2001)
    draw = np.random.default_rng(0).normal(0, noise, len(steps)) if noise else 0.0
    losses = floor + 3 * (steps / 2000) ** -exponent + draw
    law = fit_power_law(steps, losses, np.full_like(steps, 1e-3))
    assert law is not None
    expected = floor + 3 * 2.0**-exponent
    assert law.at(2) == pytest.approx(expected, abs=0.01 + 2 * noise)
    assert law.at(1) == pytest.approx(floor + 3, abs=0.01 + 2 * noise)


def test_the_unit_of_the_steps_does_not_matter():
    """Lines are not at equal distances."""
    steps = np.unique(np.geomspace(1, 2000, 300).round())
    losses = 1 + 3 * (steps / 2000) ** -0.4
    law = fit_power_law(steps, losses, np.full_like(steps, 1e-3))
    assert law is not None and law.at(2) == pytest.approx(1 + 3 * 2**-0.4, abs=0.02)


def test_neither_floor_nor_scale_is_negative():
    steps = np.arange(1.0, 101)
    for losses in (steps / 10, 100 - steps, np.full(100, 2.0)):
        law = fit_power_law(steps, losses, np.ones(100))
        assert law is not None and law.floor >= 0 and law.scale >= 0
        assert law.at(1) >= law.at(2) >= 0


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_points(count):
    steps = np.arange(1.0, count + 1)
    assert fit_power_law(steps, steps, np.ones(count)) is None


def test_no_learning_rate():
    assert fit_power_law(np.arange(1.0, 9), np.ones(8), np.zeros(8)) is None
