"""How many updates there are, with a time limit and without."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from minigpt.config import load_config
from minigpt.training.clock import EARLY, LATE, Clock, StepLimits
from minigpt.training.metrics import Records
from minigpt.training.progress import Display
from tests.run_files import records


def test_progress_is_the_share_of_the_plan_that_is_done():
    limits = StepLimits(100)
    assert [limits.progress(step) for step in (0, 25, 100, 120)] == [0, 0.25, 1, 1]
    assert limits.end(7) == 100


def test_where_the_end_moves_the_rest_is_shortened_or_stretched():
    limits = StepLimits(100)
    limits.change(20, 60)
    # A fifth is done; four fifths are left for 40 updates.
    assert [limits.progress(step) for step in (10, 20, 40, 60)] == pytest.approx([0.1, 0.2, 0.6, 1])
    assert [limits.end(step) for step in (19, 20, 59)] == [100, 60, 60]
    limits.change(40, 80)
    assert [limits.progress(step) for step in (20, 40, 60, 80)] == pytest.approx([0.2, 0.6, 0.8, 1])
    assert StepLimits(100, limits.changes).progress(60) == limits.progress(60)


class Machine:
    """Runs a Clock with updates that take so many seconds, by a clock that the test moves."""

    def __init__(self, monkeypatch, **training):
        self.now = 100.0
        monkeypatch.setattr("time.perf_counter", lambda: self.now)
        overrides = [f"training.{name}={value}" for name, value in training.items()]
        config = load_config(None, overrides).training
        self.limits = StepLimits(config.epochs * config.steps_per_epoch, config.step_limits)
        self.clock = Clock(config, self.limits, 1)
        self.config = config

    def run(self, seconds_of_step, compiling=5.0, beside=0.0, compiling_again=None):
        """Returns the seconds of training; `beside` is what an epoch takes beside its steps.

        The first epoch compiles twice: the step, and then what is beside the steps, which takes as long
        unless it is given.
        """
        compiling_again = compiling if compiling_again is None else compiling_again
        clock = self.clock
        with clock:
            for epoch in range(self.config.epochs):
                clock.begin_epoch()
                for batch in range(self.config.steps_per_epoch * self.config.accumulate_steps):
                    seconds = seconds_of_step(clock.step)  # May move the clock, too.
                    self.now += seconds / self.config.accumulate_steps
                    self.now += compiling if clock.step == 0 and batch == 0 else 0
                    clock.count_batch()
                    if clock.step >= clock.end:
                        break
                self.now += beside + (0 if epoch else compiling_again)
                if clock.step >= clock.end:
                    break
        return self.now - 100


@pytest.mark.parametrize("accumulate_steps", [1, 4])
def test_a_plan_that_takes_too_long_is_shortened_once(monkeypatch, accumulate_steps):
    machine = Machine(
        monkeypatch,
        max_minutes=2,
        epochs=5,
        steps_per_epoch=40,
        accumulate_steps=accumulate_steps,
    )
    seconds = machine.run(lambda step: 1.0, beside=0)
    assert 115 <= seconds <= 120
    assert len(machine.limits.changes) == 1
    assert machine.limits.progress(machine.clock.step) == 1


def test_time_beside_the_updates_counts(monkeypatch):
    machine = Machine(monkeypatch, max_minutes=2, epochs=8, steps_per_epoch=20)
    assert 112 <= machine.run(lambda step: 0.7, beside=8) <= 126
    assert machine.limits.progress(machine.clock.step) == 1


@pytest.mark.parametrize(
    "minutes, steps_per_epoch", [(1.5, 25), (0.7, 25), (3, 100), (0.5, 10), (0.5, 1000)]
)
def test_what_is_compiled_once_is_not_extrapolated(monkeypatch, minutes, steps_per_epoch):
    """The first validation and the first samples take 5 s, the others 0.5 s."""
    settings = {"epochs": 100, "steps_per_epoch": steps_per_epoch, "max_minutes": minutes}
    machine = Machine(monkeypatch, **settings)
    seconds = machine.run(lambda step: 0.1, beside=0.5)
    assert seconds == pytest.approx(60 * minutes, rel=0.05)
    changed_at = [step for step, _ in machine.limits.changes]
    assert len(changed_at) <= 3
    assert machine.limits.progress(machine.clock.step) == pytest.approx(1)


@pytest.mark.parametrize("steps_per_epoch", range(230, 450, 20))
def test_time_that_was_kept_for_compiling_is_used(monkeypatch, steps_per_epoch):
    """The first validation, at 55% to 90% of the time, compiles in 1 s in place of 8."""
    settings = {"epochs": 5, "steps_per_epoch": steps_per_epoch, "max_minutes": 1}
    machine = Machine(monkeypatch, **settings)
    seconds = machine.run(lambda step: 0.1, compiling=8, beside=1, compiling_again=1)
    assert 60 * EARLY - 1.5 <= seconds <= 60 * LATE
    assert machine.limits.progress(machine.clock.step) == pytest.approx(1)


def test_the_last_epoch_is_not_a_few_steps(monkeypatch):
    for steps in range(90, 110):
        settings = {"epochs": 100, "steps_per_epoch": steps, "max_minutes": 1}
        machine = Machine(monkeypatch, **settings)
        assert machine.run(lambda step: 0.1, compiling=1) == pytest.approx(60, rel=0.05)
        rest = machine.clock.step % steps
        assert not rest or rest > machine.clock.step // 40


def test_a_machine_that_becomes_slow_or_quick_again(monkeypatch):
    machine = Machine(monkeypatch, max_minutes=2, epochs=1, steps_per_epoch=2000)
    assert 108 <= machine.run(lambda step: 0.1 if step < 300 else 0.4) <= 122.5
    # The second plan extends the first one, and the checks extend the second one.
    for slow in (40, 170):
        machine = Machine(monkeypatch, max_minutes=2, epochs=1, steps_per_epoch=2000)
        assert 105 <= machine.run(lambda step, slow=slow: 0.4 if step < slow else 0.1) <= 122.5
        assert machine.limits.progress(machine.clock.step) == 1


def test_a_repeated_run_makes_the_same_updates_on_a_quicker_machine(monkeypatch):
    machine = Machine(
        monkeypatch, max_minutes=2, epochs=1, steps_per_epoch=2000, step_limits="[[30, 400]]"
    )
    machine.run(lambda step: 0.01)
    assert machine.clock.step == 400
    assert machine.limits.changes == [[30, 400]]


def test_what_compiles_on_the_way_is_no_measure_of_speed(monkeypatch):
    machine = Machine(monkeypatch, max_minutes=2, epochs=1, steps_per_epoch=300)
    machine.run(lambda step: 8.0 if step in (4, 6, 9) else 0.3, compiling=1)
    assert machine.clock.step == 300
    assert machine.limits.changes == []


def test_a_plan_that_is_done_is_not_begun_again(monkeypatch):
    machine = Machine(monkeypatch, max_minutes=2, epochs=1, steps_per_epoch=2000)
    # So much quicker at the end that much time is left.
    machine.run(lambda step: 1.0 if step < 117 else 0.001)
    assert machine.limits.progress(machine.clock.step) == 1
    assert machine.clock.step == machine.limits.end(machine.clock.step) < 2000


def test_the_speed_is_that_between_two_points(monkeypatch, tmp_path):
    """Checkpoints and the first batch of an epoch do not count. Ten updates of 0.5 s, then 0.1 s."""
    machine = Machine(monkeypatch, max_minutes="none", epochs=2, steps_per_epoch=20)
    console = Console(file=io.StringIO(), width=200)
    display = Display(console, machine.clock)
    file, shown, of_epoch = tmp_path / "steps.jsonl", {}, {}
    model = SimpleNamespace(optimizer=SimpleNamespace(learning_rate=0.1))
    recorder = Records(SimpleNamespace(steps_file=file), model, machine.clock)

    def seconds(step):
        if step:
            recorder.add_step(1, 1, {"loss": 1.0})
            of_epoch[step] = machine.clock.tokens_per_second
        if step == 5:
            with machine.clock.overhead():
                machine.now += 3
        if step in (10, 15):
            machine.now += 10 * step
            display.show_step({"loss": 1.0})
            machine.now -= 10 * step
            shown[step] = console.file.getvalue().splitlines()[-1]
        return 0.5 if step < 10 else 0.1

    machine.run(seconds)
    assert "  2 tokens/s" in shown[10] and "  10 tokens/s" in shown[15]
    recorder.flush()
    speeds = {line["step"]: line["tokens_per_second"] for line in records(file)}
    expected = {step: 2.0 if step <= 10 else 10.0 for step in range(1, 40)}
    assert speeds == expected | {1: None, 21: None}
    assert of_epoch[19] == pytest.approx(18 / (9 * 0.5 + 9 * 0.1))
    assert machine.clock.tokens_per_second == pytest.approx(10)
