"""Learning rates, compared with the formulas of their sources."""

import keras
import numpy as np
import pytest

from minigpt.config import load_config
from minigpt.models import GPT
from minigpt.training.clock import StepLimits
from minigpt.training.optimizers import build_optimizer, learning_rate

DECAYING = ["linear", "cosine", "wsd"]


def rates(schedule, steps, *, changes=(), **settings):
    """float64[steps], the learning rates of all updates."""
    overrides = [f"training.{name}={value}" for name, value in settings.items()]
    config = load_config(None, [f"training.schedule={schedule}", *overrides]).training
    limits = StepLimits(steps, changes)
    return np.array([learning_rate(config, step, limits.progress(step)) for step in range(steps)])


def test_inverse_sqrt_is_equation_3_of_vaswani_et_al():
    width, warmup = 512, 4000
    peak = (width * warmup) ** -0.5
    found = rates("inverse_sqrt", 100_000, learning_rate=peak, warmup_steps=warmup)
    step = np.arange(1, 100_001)
    expected = width**-0.5 * np.minimum(step**-0.5, step * warmup**-1.5)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.argmax() == warmup - 1


@pytest.mark.parametrize("floor", [0, 0.25])
def test_wsd_is_constant_for_four_fifths_and_then_a_line(floor):
    found = rates("wsd", 1000, learning_rate=2, warmup_steps=100, min_learning_rate=floor)
    corners = [(-1, 0), (99, 2), (800, 2), (1000, floor)]
    expected = np.interp(np.arange(1000), *zip(*corners, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("floor", [0, 0.25])
def test_cosine_and_linear_end_at_the_floor(floor):
    steps = np.arange(200)
    cosine = floor + (2 - floor) * np.cos(np.pi * steps / 400) ** 2
    found = rates("cosine", 200, learning_rate=2, warmup_steps=0, min_learning_rate=floor)
    np.testing.assert_allclose(found, cosine, rtol=1e-12)
    found = rates("linear", 200, learning_rate=2, warmup_steps=0, min_learning_rate=floor)
    np.testing.assert_allclose(found, np.linspace(2, floor, 201)[:-1], rtol=1e-12)


def test_the_warmup_multiplies_what_follows():
    for schedule in [*DECAYING, "constant"]:
        ramp = np.minimum(1, np.arange(1, 41) / 8)
        without = rates(schedule, 40, warmup_steps=0, min_learning_rate=1e-3)
        found = rates(schedule, 40, warmup_steps=8, min_learning_rate=1e-3)
        np.testing.assert_allclose(found, ramp * without, rtol=1e-12)


def test_a_wsd_run_that_is_extended_before_its_decay_has_the_rates_of_a_longer_one():
    short, long = (rates("wsd", steps, warmup_steps=5) for steps in (100, 300))
    np.testing.assert_array_equal(short[:80], long[:80])
    assert short[85] < long[85]


@pytest.mark.parametrize("optimizer", ["muon", "adam", "adamw", "sgd"])
def test_every_weight_follows_the_learning_rate(optimizer):
    config = load_config(None, [f"training.optimizer={optimizer}", "training.weight_decay=0"])
    model = GPT(vocab_size=16, max_len=4, embed_dim=8, num_heads=2, num_layers=1)
    model(np.zeros([1, 4], np.int32))
    initial = model.get_weights()
    gradients = [
        keras.random.normal(variable.shape, seed=number)
        for number, variable in enumerate(model.trainable_variables)
    ]

    def changes(rate):
        model.set_weights(initial)
        built = build_optimizer(config.training, model)
        built.learning_rate = rate
        built.apply(gradients, model.trainable_variables)
        pairs = zip(model.get_weights(), initial, strict=True)
        return [after - before for after, before in pairs]

    for once, twice in zip(changes(0.01), changes(0.02), strict=True):
        assert np.abs(once).max() > 1e-5
        np.testing.assert_allclose(twice, 2 * once, rtol=1e-2, atol=1e-6)
