"""Samples that fail: one line, and nothing else."""

from minigpt.training.pipeline import train
from tests.conftest import tiny_settings


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
