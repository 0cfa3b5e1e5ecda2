"""Nothing is suspicious about real texts."""

import tarfile
from pathlib import Path

import numpy as np

from minigpt.analysis.text_checks import check_text
from minigpt.analysis.text_sample import BLOCKS, Passage
from minigpt.corpus.sources import PythonLibrary
from minigpt.corpus.stories import stories
from tests.analysis.test_text_checks import documents, kinds, opened


def blocks_of(texts: list[str], size: int = 125_000) -> list[Passage]:
    """At most 2 MB of texts, in blocks."""
    joined = "\0".join(texts)
    if len(joined) <= BLOCKS * size:
        return documents(*texts)
    passages = []
    for start in np.linspace(0, len(joined) - size, BLOCKS).astype(int):
        parts = joined[start : start + size].split("\0")
        last = len(parts) - 1
        passages += [Passage(t, i > 0, i < last) for i, t in enumerate(parts) if t]
    return passages


def test_the_bundled_stories_are_good():
    assert kinds(blocks_of(list(stories(2000)))) == []


def test_python_is_good():
    assert kinds(blocks_of([piece.text.decode() for piece in PythonLibrary().pieces()])) == []


def test_this_project_is_good():
    package = Path(__file__).resolve().parents[2]
    code = [path.read_text() for path in sorted((package / "minigpt").rglob("*.py"))]
    assert kinds(blocks_of([text for text in code if text])) == []
    assert kinds(blocks_of([path.read_text() for path in (package / "docs").glob("*.md")])) == []


def test_shakespeare_is_good(shared_data, tmp_path):
    text = (shared_data / "shakespeare.txt").read_text()
    assert check_text(*opened(tmp_path, text)) == []
    assert kinds(blocks_of(text.split("\n\n"))) == []


def test_pairs_are_good(shared_data):
    lines = (shared_data / "eng-deu.tsv").read_text().splitlines()
    assert kinds(blocks_of([s for line in lines for s in line.split("\t")[:2]])) == []


def test_reviews_are_good(shared_data):
    with tarfile.open(shared_data / "aclImdb_v1.tar.gz") as archive:
        files = (archive.extractfile(m) for m in archive if m.isfile() and "/train/" in m.name)
        texts = [file.read().decode() for _, file in zip(range(5000), files, strict=False) if file]
    assert kinds(blocks_of(texts)) == []
