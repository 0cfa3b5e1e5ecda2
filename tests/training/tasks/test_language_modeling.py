"""The task of a language model."""

import pytest

import minigpt
from minigpt.errors import UserError
from tests.conftest import tiny_settings


@pytest.mark.parametrize(
    ("changes", "setting"),
    [({}, "model.max_len = 16"), ({"sequence_length": 12}, "training.sequence_length = 12")],
)
def test_a_text_that_is_too_short_is_named_with_the_setting(tmp_path, changes, setting):
    (tmp_path / "short.txt").write_text("Too short for a batch.")
    settings = tiny_settings(tmp_path / "short.txt", training=changes)
    with pytest.raises(UserError) as error:
        minigpt.train(settings, tmp_path / "run")
    (problem,) = error.value.problems
    assert problem.startswith(f"{tmp_path / 'short.txt'}: ") and setting in problem
    assert [path.name for path in tmp_path.iterdir()] == ["short.txt"]
