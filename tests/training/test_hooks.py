"""Hooks that fail: one line, and nothing else."""

import re

import minigpt
from minigpt.errors import UserError
from minigpt.runs.run import Run
from minigpt.targets.run_files import PortableFile
from minigpt.training.hooks import Hook
from minigpt.training.pipeline import train
from tests.conftest import tiny_settings


class EachStep(Hook):
    name = "each step"

    def __init__(self):
        self.calls = 0

    def step_ended(self, logs):
        self.calls += 1
        raise ValueError(f"loss {logs['loss']} at call {self.calls}")


class Never(Hook):
    name = "never"

    def started(self, loop):
        raise UserError("a\nb")

    def step_ended(self, logs):
        raise AssertionError("called although `started` failed")

    epoch_ended = best_ready = finished = step_ended


def test_samples_that_fail_cost_one_line(tiny_file, tmp_path, without_xla, capsys, monkeypatch):
    def fail(*_):
        raise ValueError("filter")

    monkeypatch.setattr("minigpt.generation.sampling.shape_distribution", fail)
    settings = tiny_settings(
        tiny_file, training={"epochs": 2, "steps_per_epoch": 2}, sampling={"prompts": ["Ana"]}
    )
    run = train(settings, tmp_path / "run")
    said = [line for line in capsys.readouterr().out.splitlines() if "no samples" in line]
    for epoch, line in enumerate(said, 1):
        assert line.startswith(f"no samples after epoch {epoch}: ValueError: filter")
    assert len(said) == 2
    assert len(list(run.checkpoints_folder.iterdir())) == 2 and run.model_file.is_file()


def test_a_hook_that_fails_costs_one_line(tiny_file, tmp_path, without_xla, capsys):
    settings = tiny_settings(tiny_file, training={"epochs": 1, "steps_per_epoch": 4})
    each_step = EachStep()
    run = train(settings, tmp_path / "run", hooks=(each_step, Never(), PortableFile()))
    assert each_step.calls == 4
    never, each = (
        line for line in capsys.readouterr().out.splitlines() if "is not written" in line
    )
    assert never == "never is not written: a b"
    assert re.fullmatch(r"each step is not written: ValueError: loss [\d.]+ at call 1 \(.*\)", each)
    assert isinstance(run, Run) and run.portable_file.is_file()
    assert minigpt.load(run).generate("Ana", max_new_tokens=2)
