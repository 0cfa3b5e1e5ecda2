"""The search for a learning rate, and the short runs of a sweep."""

import math
from functools import partial

import pytest

from minigpt.insight import learning_rates
from minigpt.insight.learning_rates import FACTOR, MOST, sweep_learning_rates
from minigpt.insight.sweep import try_settings


def search(own, loss) -> dict[float, float]:
    return try_settings(partial(learning_rates.search, own), loss)


def tried(loss) -> list[float]:
    return sorted(search(1.0, loss))


@pytest.mark.parametrize("best", [-5, -2, -1, 0, 1, 2, 5])
def test_finds_the_best_rate_and_one_beyond_it(best):
    losses = search(1.0, lambda rate: 1 + abs(math.log(rate, FACTOR) - best))
    assert min(losses, key=lambda rate: losses[rate]) == pytest.approx(FACTOR**best)
    assert len(losses) <= abs(best) + 3


def test_goes_down_while_training_fails():
    losses = search(1.0, lambda rate: math.inf if rate > FACTOR**-3 else 1.0 + rate)
    assert min(losses.values()) < 2 and min(losses) <= FACTOR**-3


def test_goes_up_while_nothing_is_learned():
    losses = search(1.0, lambda rate: 5.0 if rate < FACTOR**4 else 2.0)
    assert FACTOR**4 in losses


def test_leaves_a_plateau_where_nothing_is_learned():
    """As seen with AdamW: from 0.05 to 0.8, all rates are at the loss of the token frequencies."""
    losses = search(
        1.0, lambda rate: 3.3 - 0.01 * rate if 0.1 < rate < 8 else 2.0 + abs(rate - 0.02)
    )
    assert min(losses, key=lambda rate: losses[rate]) == FACTOR**-3


def test_ends():
    assert len(tried(lambda rate: 1 / rate)) == MOST + 2
    assert len(tried(lambda rate: rate)) == MOST + 2
    assert len(tried(lambda rate: math.inf)) <= 2 * MOST + 1
    assert len(tried(lambda rate: 5.0)) <= 2 * MOST + 1


def test_a_run(tiny_run):
    """The tiny recipe is good; the weights of the run do not matter, and nothing is written."""
    before = {path: path.stat().st_mtime_ns for path in tiny_run.path.rglob("*")}
    lines: list[str] = []
    sweep = sweep_learning_rates(tiny_run, lines.append)
    assert {path: path.stat().st_mtime_ns for path in tiny_run.path.rglob("*")} == before
    assert len(lines) == len(sweep.losses) >= 3
    own = tiny_run.config.training.learning_rate
    # Uniform is 5.8 nats; the run itself reaches less than 4 after an epoch of 40 updates.
    assert min(sweep.losses.values()) < 3 and sweep.losses[own] < 4
    assert 20 <= sweep.steps <= 100


def test_the_same_rate_has_the_same_loss(tiny_run, monkeypatch):
    # The second number differs from the first one by a rounding error.
    monkeypatch.setattr(learning_rates, "search", lambda own, losses: [own, own * (1 + 1e-15)])
    monkeypatch.setattr(learning_rates, "STEPS", 20)
    losses = list(sweep_learning_rates(tiny_run).losses.values())
    assert len(losses) == 2
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_failed_training_is_the_worst():
    losses = {"a": math.nan, "b": 2.0, "c": math.inf, "d": 1.0}
    found = try_settings(lambda _: losses, losses.__getitem__, kept={"d": 3.0})
    assert list(found.items()) == [("b", 2.0), ("d", 3.0), ("a", math.inf), ("c", math.inf)]
