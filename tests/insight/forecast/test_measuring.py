"""The time of a training run and of its parts: against values computed by hand."""

from dataclasses import replace

import pytest

from minigpt.config import TrainingConfig
from minigpt.insight.forecast.measuring import Durations, seconds_of_batches, times


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


PARTS = Durations(
    preparation=5.0,
    compilation=8.0,
    first_epochs=6.0,
    step=0.5,
    validation=2.0,
    samples=3.0,
    checkpoint=0.25,
    export=10.0,
)


def training(epochs, steps_per_epoch, minutes=None, **settings):
    settings = {"checkpoint_every_seconds": None, **settings}
    return TrainingConfig(
        epochs=epochs, steps_per_epoch=steps_per_epoch, max_minutes=minutes, **settings
    )


def test_without_a_limit():
    found = times(PARTS, training(3, 20))
    assert found.steps == 60
    assert found.first_epoch == pytest.approx(14 + 10 + 2 + 3 + 0.25)
    assert found.training == pytest.approx(14 + 3 * (10 + 2 + 3 + 0.25))
    assert found.total == pytest.approx(5 + 59.75 + 10)
    assert found.parts == pytest.approx(
        {
            "preparation": 5,
            "compilation": 14,
            "steps": 30,
            "validation": 6,
            "samples": 9,
            "checkpoints": 0.75,
            "export": 10,
        }
    )
    assert sum(found.parts.values()) == pytest.approx(found.total)


def test_samples_after_every_other_epoch():
    assert times(PARTS, training(5, 20), print_every=2).parts["samples"] == pytest.approx(2 * 3)
    assert times(PARTS, training(1, 20), print_every=2).parts["samples"] == 0


@pytest.mark.parametrize("minutes", [1.0, 2.0, 3.5])
def test_a_limit_shortens_the_training(minutes):
    found = times(PARTS, training(20, 20, minutes))
    assert 20 < found.steps < 400
    # An epoch, which takes 15.25 s, may begin shortly before the limit.
    assert 0.8 * 60 * minutes <= found.training <= 60 * minutes + 5.25


def test_a_limit_that_is_not_reached_changes_nothing():
    assert times(PARTS, training(3, 20, 1.0)) == times(PARTS, training(3, 20))


def test_a_limit_within_the_first_epoch():
    found = times(PARTS, training(3, 1000, 1.0))
    # 0.99 of the limit without the compilation; validation and samples come after it.
    assert found.steps == int((59.4 - 8) / 0.5) == 102
    assert found.first_epoch == pytest.approx(14 + 51 + 2 + 3 + 0.25)
    assert found.training == found.first_epoch


def test_shapes_that_would_be_compiled_after_the_limit():
    found = times(replace(PARTS, compilation=200.0), training(3, 1000, 1.0))
    assert (found.steps, found.parts["compilation"]) == (1, 60 + 6)


def test_at_least_one_update():
    assert times(PARTS, training(3, 1000, 0.01)).steps == 1


def test_checkpoints_within_an_epoch():
    by_steps = training(2, 20, checkpoint_every_steps=5)
    assert times(PARTS, by_steps).parts["checkpoints"] == pytest.approx((2 + 8) * 0.25)
    # Not more often than every 50 times what a checkpoint takes, here 12.5 s: both epochs have 120 s.
    by_seconds = training(2, 120, checkpoint_every_seconds=1.0)
    assert times(PARTS, by_seconds).parts["checkpoints"] == pytest.approx((2 + 9) * 0.25)
