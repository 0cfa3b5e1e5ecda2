"""Nothing is suspicious about real texts; their own ends are like the rest, and those of others are not."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from minigpt.corpus.sources import python_library, stories
from minigpt.evaluation.baselines import held_out_likeness
from minigpt.insight.doctor import diagnose
from minigpt.insight.text_checks import BLOCKS, check_text
from tests.insight.histories import history, saturating
from tests.insight.test_text_checks import documents, kinds, opened

pytestmark = pytest.mark.slow


def blocks_of(texts: list[str], size: int = 125_000) -> list[str]:
    """At most 2 MB of texts, in blocks."""
    joined = "\0".join(texts)
    if len(joined) <= BLOCKS * size:
        return documents(*texts)
    passages = []
    for start in np.linspace(0, len(joined) - size, BLOCKS).astype(int):
        parts = joined[start : start + size].split("\0")
        passages += filter(None, parts)
    return passages


def test_the_bundled_stories_are_good():
    assert kinds(blocks_of(list(islice(stories(), 2000)))) == []


def test_shakespeare_is_good(shared_data, tmp_path):
    text = (shared_data / "shakespeare.txt").read_text()
    assert check_text(*opened(tmp_path, text)) == []
    assert kinds(blocks_of(text.split("\n\n"))) == []


@pytest.fixture(scope="module")
def texts(shared_data) -> dict[str, str]:
    lines = (shared_data / "eng-deu.tsv").read_text(encoding="utf-8").splitlines()
    english, german = ("\n".join(line.split("\t")[column] for line in lines) for column in (0, 1))
    library = (piece.text.decode() for piece in python_library())
    return {
        "play": (shared_data / "shakespeare.txt").read_text(encoding="utf-8"),
        "english": english,
        "german": german,
        "code": "".join(text for _, text in zip(range(200), library, strict=False)),
    }


@pytest.mark.parametrize("kind", ["character", "byte_pair"])
@pytest.mark.parametrize(
    "begin, end, other",
    [
        (0, 1_000_000, None),
        (300_000, 400_000, None),
        (500_000, 520_000, None),
        (0, 450_000, "german"),
        (0, 18_000, "german"),
        (0, 450_000, "code"),
    ],
)
def test_the_end_of_a_play(texts, tmp_path, kind, begin, end, other):
    text = texts["play"][begin:end]
    if other:
        text += texts[other][-(end - begin) // 9 :]
    assert ("unlike" in likeness(tmp_path, text, kind)) == bool(other)


@pytest.mark.parametrize("kind", ["character", "byte_pair"])
@pytest.mark.parametrize("name", ["english", "german", "code"])
def test_the_end_of_other_texts(texts, tmp_path, kind, name):
    assert likeness(tmp_path, texts[name][:1_000_000], kind) == []
    text = texts[name][:900_000] + texts["play"][:100_000]
    # Some files of the library are tables: the play is not less like the others than they are.
    assert likeness(tmp_path, text, kind) == (["unlike"] if name != "code" else [])


def likeness(folder: Path, text: str, kind: str) -> list[str]:
    """The verdicts on a good training on this text, the last tenth of which is held out."""
    corpus, _ = opened(folder, text, kind=kind)
    measured = held_out_likeness(corpus.train.ids, corpus.val.ids, corpus.tokenizer.vocab_size)
    assert measured
    found = diagnose(history(saturating(1.6), analysis={"held_out": measured}))
    return [verdict.id for verdict in found]
