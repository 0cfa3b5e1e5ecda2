"""The doctor's verdicts on real runs, bad ones and good ones."""

import pytest

import minigpt
from tests.insight.doctor_trainings import BAD, GOOD, Training

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def play(shared_data) -> str:
    return (shared_data / "shakespeare.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("training", BAD, ids=lambda training: training.name)
def test_a_bad_training_gets_its_verdict(training: Training, play, tmp_path):
    run = training.train(play, tmp_path / "training")
    found = [verdict.id for verdict in minigpt.examine(run)]
    assert training.verdict in found and training.innocent_of not in found


@pytest.mark.parametrize("training", GOOD, ids=lambda training: training.name)
def test_a_good_training_gets_none(training: Training, play, tmp_path):
    run = training.train(play, tmp_path / "training")
    assert minigpt.examine(run) == []
