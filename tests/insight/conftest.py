import random

import pytest

import minigpt
from tests.conftest import SAMPLED, nothing_compiled, nothing_exported, tiny_settings

PASSAGE = "It was a bright cold day in April, and the clocks of the town were striking thirteen."
WORDS = (
    "red",
    "blue",
    "green",
    "old",
    "tall",
    "low",
    "cat",
    "dog",
    "fox",
    "sat",
    "ran",
    "ate",
    "saw",
)


def sentences(count: int, draw: random.Random) -> list[str]:
    """Sentences of random words, which cannot be learned by heart."""
    return [" ".join(draw.choices(WORDS, k=7)) + "." for _ in range(count)]


@pytest.fixture(autouse=True)
def trainings_of_this_process(without_xla) -> None:
    """The runs of the session fixtures of tests/conftest.py have XLA."""


@pytest.fixture(scope="session")
def learned_by_heart(tmp_path_factory: pytest.TempPathFactory) -> minigpt.Run:
    """A run on a text with PASSAGE 200 times, but not in its held-out end."""
    folder, draw = tmp_path_factory.mktemp("heart"), random.Random(0)
    book = "".join(f"{sentence}\n{PASSAGE}\n" for sentence in sentences(200, draw))
    end = "\n".join(sentences(150, draw))
    # Less than ten documents: the end of the text is held out.
    (folder / "a.txt").write_text("A short one.\n")
    (folder / "book.txt").write_text(book + end)
    settings = tiny_settings(
        folder / "*.txt",
        tokenizer={"vocab_size": 340},
        model={"max_len": 64, "embed_dim": 16, "num_heads": 2, "num_layers": 1},
        training={"epochs": 3, "steps_per_epoch": 120, "keep_snapshots": False},
        sampling=SAMPLED,
    )
    with nothing_exported(), nothing_compiled():
        return minigpt.train(settings, folder / "run")
