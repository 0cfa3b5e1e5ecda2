"""The files for TensorBoard, read by its own reader."""

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

import minigpt
from minigpt.runs.checkpoints import best_checkpoint
from tests.conftest import SAMPLED, nothing_compiled, nothing_exported, tiny_settings
from tests.run_files import records


@pytest.fixture(scope="module")
def board(tiny_file, tmp_path_factory):
    settings = tiny_settings(
        tiny_file, training={"tensorboard": True, "epochs": 2}, sampling=SAMPLED
    )
    with nothing_exported(), nothing_compiled():
        run = minigpt.train(settings, tmp_path_factory.mktemp("board") / "run")
    events = EventAccumulator(str(run.path / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    return run, events


def values(events, tag: str) -> dict[int, np.ndarray]:
    return {
        event.step: tensor_util.make_ndarray(event.tensor_proto) for event in events.Tensors(tag)
    }


def test_scalars_are_those_of_the_run(board):
    run, events = board
    for name in ("loss", "perplexity", "bits_per_byte"):
        found = values(events, f"validation/{name}")
        expected = {line["step"]: line[f"val_{name}"] for line in records(run.metrics_file)}
        assert {step: float(value) for step, value in found.items()} == pytest.approx(expected)
    lines = records(run.steps_file)
    for tag, key in (("loss_of_epoch_so_far", "mean_loss"), ("learning_rate", "learning_rate")):
        found = values(events, f"train/{tag}")
        assert {step: float(value) for step, value in found.items()} == pytest.approx(
            {line["step"]: line[key] for line in lines}
        )
    found = values(events, "train/tokens_per_second")
    assert {step: float(value) for step, value in found.items()} == pytest.approx(
        {line["step"]: speed for line in lines if (speed := line["tokens_per_second"])}, abs=0.06
    )


def test_samples_are_text(board):
    run, events = board
    samples = [sample for sample in records(run.samples_file) if sample["epoch"] == 2]
    for number, sample in enumerate(samples):
        text = values(events, f"samples/{number}")[80].item().decode()
        assert all(line in text for line in sample["text"].split("\n"))
        assert "**prompt**" in text


def test_histograms_of_all_weights(board):
    run, events = board
    tags = [tag for tag in events.Tags()["tensors"] if tag.startswith("weights/")]
    checkpoint = best_checkpoint(run.checkpoints_folder)
    weights = [checkpoint.arrays[name] for name in sorted(checkpoint.arrays) if "weights/" in name]
    assert len(tags) == len(weights)
    for tag, weight in zip(sorted(tags), weights, strict=True):
        # Rows of left edge, right edge, count.
        (*_, histogram) = values(events, tag).values()
        assert histogram[:, 2].sum() == weight.size
        assert histogram[0, 0] == pytest.approx(weight.min(), abs=1e-6)
