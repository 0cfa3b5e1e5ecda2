"""What counts as a story that keeps its child."""

import pytest

from scripts.measure_story_names import keeps_the_child

NAMES = {"Ana", "Ben", "Eva"}


@pytest.mark.parametrize(
    ("rest", "is_kept"),
    [
        ("a little girl named Ana. She was kind. Ana had a kite.", True),
        ("a little girl named Ana. She was kind. Eva had a kite.", False),
        ("a little girl named Ana. He was kind. Ana had a kite.", False),
        ("a little girl named Ana. She was kind. Ana lost his kite.", False),
        ("a little girl named Ana. She was kind. Ana met Ben and took his kite.", True),
        ("a little boy named Ben. He was kind. Ben asked his mother. She nodded.", True),
        ("a little house. Ana lived there. Ana had a kite.", False),
    ],
)
def test_a_story_keeps_its_child(rest, is_kept):
    assert keeps_the_child(f"Once upon a time, there was {rest}", NAMES) is is_kept
