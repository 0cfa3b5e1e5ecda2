"""Messages name options, and go to standard error."""

import pytest

from minigpt.cli.command import command
from minigpt.errors import ArgumentProblem, UserError

OPTIONS = {"run": "RUN", "top_k": "--top-k", "beams": "--beams", "num_samples": "--num-samples"}


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (ArgumentProblem("run", "a b", "does not exist"), "RUN a b: does not exist"),
        (ArgumentProblem("other", "x", "is empty"), "other = 'x': is empty"),
        ("sampling.top_k = -1: should be at least 0", "--top-k -1: should be at least 0"),
        (
            "num_samples = 3: should be at most beams = 2",
            "--num-samples 3: should be at most --beams 2",
        ),
        ("model.beams = 3: unknown", "model.beams = 3: unknown"),
        ("book.txt: is empty", "book.txt: is empty"),
    ],
)
def test_problems_name_options(problem, expected):
    @command(OPTIONS)
    def fail() -> None:
        raise UserError(problem)

    with pytest.raises(UserError) as error:
        fail()
    assert error.value.problems == (expected,)
