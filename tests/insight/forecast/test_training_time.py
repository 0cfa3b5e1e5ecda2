"""The time of a training, from that of its parts: against values computed by hand."""

from dataclasses import replace

import pytest

from minigpt.insight.forecast.training_time import Durations, Schedule, times

# Preparation 5, compilation 6 and 2, a step 0.5, validation 2 + 1 for its compilation, samples 3 (first 7,
# second 4), a checkpoint 0.25, export 10.
PARTS = Durations(5.0, 6.0, 8.0, 0.5, 3.0, 2.0, 7.0, 4.0, 3.0, 0.25, 10.0)


def test_without_a_limit():
    found = times(PARTS, Schedule(epochs=3, steps_per_epoch=20))
    assert found.steps == 60
    assert found.first_epoch == pytest.approx(8 + 10 + 3 + 7 + 0.25)
    assert found.training == pytest.approx(28.25 + 2 * (10 + 2 + 3 + 0.25) + 1)
    assert found.total == pytest.approx(5 + 59.75 + 10)
    assert found.parts == pytest.approx(
        {
            "preparation": 5,
            "compilation": 8,
            "steps": 30,
            "validation": 7,
            "samples": 14,
            "checkpoints": 0.75,
            "export": 10,
        }
    )
    assert sum(found.parts.values()) == pytest.approx(found.total)


def test_samples_after_every_other_epoch():
    found = times(PARTS, Schedule(epochs=5, steps_per_epoch=20, print_every=2))
    assert found.parts["samples"] == pytest.approx(7 + 4)
    none = times(PARTS, Schedule(epochs=1, steps_per_epoch=20, print_every=2))
    assert none.parts["samples"] == 0


@pytest.mark.parametrize("minutes", [1.0, 2.0, 3.5])
def test_a_limit_shortens_the_training(minutes):
    found = times(PARTS, Schedule(epochs=20, steps_per_epoch=20, max_minutes=minutes))
    assert 20 < found.steps < 400
    assert 0.8 * 60 * minutes <= found.training <= 60 * minutes
    # One update more would be too long.
    longer = times(PARTS, Schedule(epochs=1, steps_per_epoch=found.steps + 1))
    assert longer.steps == found.steps + 1


def test_a_limit_that_is_not_reached_changes_nothing():
    plain = Schedule(epochs=3, steps_per_epoch=20)
    limited = Schedule(epochs=3, steps_per_epoch=20, max_minutes=1.0)
    assert times(PARTS, limited) == times(PARTS, plain)


def test_a_limit_within_the_first_epoch():
    found = times(PARTS, Schedule(epochs=3, steps_per_epoch=1000, max_minutes=1.0))
    # 0.99 of the limit without the compilation; validation and samples come after it.
    assert found.steps == int((59.4 - 8) / 0.5) == 102
    assert (
        found.first_epoch == pytest.approx(found.training) == pytest.approx(8 + 51 + 3 + 7 + 0.25)
    )


def test_shapes_that_would_be_compiled_after_the_limit():
    schedule = Schedule(epochs=3, steps_per_epoch=1000, max_minutes=1.0)
    found = times(replace(PARTS, compilation=200.0), schedule)
    assert (found.steps, found.parts["compilation"]) == (1, 60)
    # The first one is, in any case.
    found = times(replace(PARTS, first_compilation=90.0, compilation=200.0), schedule)
    assert (found.steps, found.parts["compilation"]) == (1, 90)


def test_at_least_one_update():
    assert times(PARTS, Schedule(epochs=3, steps_per_epoch=1000, max_minutes=0.01)).steps == 1


def test_checkpoints_within_an_epoch():
    by_steps = Schedule(epochs=2, steps_per_epoch=20, checkpoint_every_steps=5)
    assert times(PARTS, by_steps).parts["checkpoints"] == pytest.approx((2 + 8) * 0.25)
    # Not more often than every 50 times what a checkpoint takes, here 12.5 s: an epoch has 60 s.
    by_seconds = Schedule(epochs=2, steps_per_epoch=120, checkpoint_every_seconds=1.0)
    assert times(PARTS, by_seconds).parts["checkpoints"] == pytest.approx((2 + 8) * 0.25)
