"""The bundled corpus: the same bytes everywhere."""

import hashlib

import story_generator as corpus

from minigpt.corpus import sources as bundled


def test_another_seed_gives_other_stories() -> None:
    assert not set(corpus.stories(60, seed=1)) & set(corpus.stories(60, seed=0))


def test_fewer_stories_are_the_first_ones(texts: list[str]) -> None:
    assert list(corpus.stories(20)) == texts[:20]


def test_the_bundled_text_is_what_is_generated(texts: list[str]) -> None:
    assert list(bundled.stories()) == texts


def test_the_fingerprint_stands_for_this_text(texts: list[str]) -> None:
    """Whoever changes the text changes both hashes. Python's own hashes differ in each process."""
    text = hashlib.sha256("\x00".join(texts).encode()).hexdigest()
    assert (text, bundled.FINGERPRINT) == (
        "e891d8ce47d16fa2ca04cebd0d364bc9b7b1fc5679ef6c4f2bc5c2c9ee6f8405",
        "d04e5d4fcd83a1d3ed53ff4dd1d959aa4c6d418980622bda100f15fc8bfd13b7",
    )
