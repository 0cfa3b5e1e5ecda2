"""The bundled corpus: the same bytes everywhere, and enough variety."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import story_generator as corpus

from minigpt.corpus import sources as bundled


def test_stories_are_reproducible() -> None:
    assert list(corpus.stories(60)) == list(corpus.stories(60))
    assert list(corpus.stories(20)) == list(corpus.stories(60))[:20]


def test_another_seed_gives_other_stories() -> None:
    assert not set(corpus.stories(60, seed=1)) & set(corpus.stories(60, seed=0))


@pytest.mark.parametrize("hash_seed", ["0", "1234"])
def test_bytes_do_not_depend_on_the_process(hash_seed: str) -> None:
    program = (
        "import hashlib; from story_generator import stories;"
        "print(hashlib.sha256('|'.join(stories(100)).encode()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "LC_ALL": "C"},
        cwd=Path(corpus.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    here = hashlib.sha256("|".join(corpus.stories(100)).encode()).hexdigest()
    assert run.stdout.strip() == here


def test_the_bundled_text_is_what_is_generated(texts: list[str]) -> None:
    assert list(bundled.stories()) == texts


def test_the_fingerprint_stands_for_this_text(texts: list[str]) -> None:
    """Whoever changes the text changes both hashes."""
    text = hashlib.sha256("\x00".join(texts).encode()).hexdigest()
    assert (text, bundled.FINGERPRINT) == (
        "e891d8ce47d16fa2ca04cebd0d364bc9b7b1fc5679ef6c4f2bc5c2c9ee6f8405",
        "d04e5d4fcd83a1d3ed53ff4dd1d959aa4c6d418980622bda100f15fc8bfd13b7",
    )
