"""Impossible events and invalid templates are refused; spelling is corrected across parts."""

import pytest
from story_generator import template
from story_generator.world import StoryError, World


def test_the_world_refuses_impossible_events() -> None:
    world = World()
    with pytest.raises(StoryError, match="nobody has"):
        world.put("mia", "ball", "under the bed")
    world.own("mia", "ball")
    with pytest.raises(StoryError, match="does not have"):
        world.give("tom", "mia", "ball")
    world.give("mia", "tom", "ball")
    assert world.who_has("ball") == "tom"
    world.give("tom", "mia", "ball")
    with pytest.raises(StoryError, match="lies nowhere"):
        world.find("tom", "ball")
    world.put("mia", "ball", "under the bed")
    assert world.find("tom", "ball") == "under the bed"
    assert world.who_has("ball") == "tom"


@pytest.mark.parametrize("wrong", ["[a|b", "a]", "a|b", "{a", "<put a", "a}", "[1:a"])
def test_an_invalid_template_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"template|cannot read"):
        template.parse(wrong)


def test_tidy_corrects_spelling_across_parts() -> None:
    told = (
        'a  apple fell.\n\n "a ice cap!" said Mia. he saw a one-eyed cat and said, "oh!". it ran.'
    )
    assert template.tidy(told) == (
        'An apple fell.\n"An ice cap!" said Mia. He saw a one-eyed cat and said, "Oh!" It ran.'
    )
