"""When a base is used, what is said about it, and how training goes on from it."""

import pytest

from minigpt.config.beginning import base_helps, settings_for, what_to_expect

# EXPERIMENTS.md, 2026-11-29: bits per byte of the base before training, for 20 to 100 KB of a text; chess
# of an earlier base.
HELPED = {
    "novel": (1.43,),
    "reviews": (2.00, 1.92),
    "Python": (2.83, 2.55, 3.57, 2.85, 2.59),
    "messages": (3.32, 3.68, 3.93),
}
NOT_HELPED = {"German": (4.16, 4.23), "chess": (4.71, 4.63, 4.59), "Russian": (7.86,)}


@pytest.mark.parametrize(("texts", "expected"), [(HELPED, True), (NOT_HELPED, False)])
def test_the_base_is_used_where_it_was_measured_to_help(texts, expected):
    for text, measured in texts.items():
        assert all(base_helps(bits, 2.0, 10_000_000) == expected for bits in measured), text


@pytest.mark.parametrize("measured", [(0.7, 0.7), (1.1, 1.2)])
def test_large_corpora_from_templates_are_learned_from_nothing(measured):
    """EXPERIMENTS.md, 2026-11-28: dialogues and stories, with a 7-gram of the text."""
    assert not base_helps(*measured, 5_600_000)
    assert base_helps(*measured, 500_000)


def test_what_to_expect_depends_on_the_length_and_on_the_base():
    sizes = (5_000, 20_000, 100_000, 1_000_000, 5_000_000)
    for bits, different in ((2.0, 3), (None, 4), (3.5, 1)):
        both = bits and (bits, 3.0)
        said = [what_to_expect(size, both).partition("expect ")[2] for size in sizes]
        assert len(set(said)) == different
    assert len({what_to_expect(5_000, bits) for bits in ((2.0, 3.0), (3.5, 3.0), None)}) == 3
    # 20 KB of the base's own kind of text, and of Python of `keras` (EXPERIMENTS.md, 2026-11-28).
    assert what_to_expect(20_000, (1.95, 3.0)) != what_to_expect(20_000, (2.97, 3.0))
    # The log of a package manager is like itself.
    assert what_to_expect(300_000, (2.2, 0.6)).endswith("expect lines in the manner of your text.")
    assert what_to_expect(2_000, (2.0, 3.0), True).startswith("2 KB of text: expect answers")
    assert not what_to_expect(1_000_000, (2.0, 3.0), True)
    amounts = [what_to_expect(size, None).split(" of text")[0] for size in (950, 60_400, 1_240_000)]
    assert amounts == ["950 bytes", "60 KB", "1.2 MB"]


def test_the_recipe_follows_from_the_distance_of_the_text():
    """EXPERIMENTS.md, 2026-11-28: the best rates for a base of 5 million weights, and at most 3e-3."""
    recipes = [settings_for(5e6, 40_000, 256, bits) for bits in (1.5, 2.07, 3.5, 4.1)]
    rates = [training["learning_rate"] for training, *_ in recipes]
    assert rates == pytest.approx([6e-4, 1.3e-3, 3e-3, 3e-3], rel=0.05)
    tokens = [trained for *_, trained in recipes]
    assert 40_000 < tokens[0] < tokens[1] < tokens[2] == tokens[3]
    # A few words are not read more than 20 times.
    assert settings_for(5e6, 70, 512, 3.0)[2] == 1400
    # Larger models have lower rates.
    assert settings_for(20e6, 40_000, 256, 2.07)[0]["learning_rate"] == pytest.approx(6.4e-4)
