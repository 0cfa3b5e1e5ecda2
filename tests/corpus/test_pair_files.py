"""Tab-separated pairs: reading, refusals, and the split."""

from collections import Counter

import pytest

from minigpt.corpus.documents import Piece, ingest
from minigpt.corpus.split import split_pairs
from minigpt.corpus.text_files import PairFiles
from minigpt.corpus.token_store import open_corpus
from minigpt.errors import UserError
from tests.settings import data_config, tokenizer_config


def write(tmp_path, content, name="pairs.tsv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def sentences(*paths):
    return [piece.text.decode() for piece in PairFiles(paths).pieces()]


def test_sources_and_targets_in_turn(tmp_path):
    path = write(tmp_path, "Go.\tGeh.\r\n  Hi!\t Grüß Gott! ")
    assert sentences(path) == ["Go.", "Geh.", "Hi!", "Grüß Gott!"]


def test_further_columns_are_ignored(tmp_path):
    path = write(tmp_path, "Go.\tGeh.\tCC-BY 2.0\nHi!\tHallo!\tCC-BY\tx\nNo.\tNein.\n")
    assert sentences(path) == ["Go.", "Geh.", "Hi!", "Hallo!", "No.", "Nein."]


def pairs_of(documents):
    texts = [documents.text[start:stop].decode() for start, stop in documents.spans]
    return list(zip(texts[0::2], texts[1::2], strict=True))


def documents_of(pairs):
    return ingest(Piece(text.encode(), True) for pair in pairs for text in pair)


MANY = [(f"source {n % 37}", f"target {n}") for n in range(100)]


@pytest.mark.parametrize("val_pairs", [1, 2, 10, 31, 65])
def test_the_number_of_pairs_is_exact_and_no_source_is_on_both_sides(val_pairs):
    # Sources with 2, 3 and 1 pairs: any number can be met.
    pairs = [*MANY, *((f"single {n}", "x") for n in range(30))]
    train, val = map(pairs_of, split_pairs(documents_of(pairs), 0.1, val_pairs))
    assert len(val) == val_pairs
    assert Counter(train + val) == Counter(pairs)
    assert not {source for source, _ in train} & {source for source, _ in val}
    assert train == sorted(train, key=pairs.index) and val == sorted(val, key=pairs.index)


def test_numbers_that_cannot_be_met():
    same = documents_of([("same", str(n)) for n in range(5)])
    with pytest.raises(UserError, match=r"data\.val_pairs = 2: cannot be met"):
        split_pairs(same, 0.1, 2)
    with pytest.raises(UserError, match=r"data\.val_fraction = 0\.1: cannot be met"):
        split_pairs(same, 0.1, None)
    one = documents_of([("a", "b")])
    for val_pairs in (1, 7, None):
        with pytest.raises(UserError, match="cannot be met: of 1 pairs"):
            split_pairs(one, 0.1, val_pairs)


def test_at_most_half_of_the_pairs_are_held_out(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "cache"))
    path = write(tmp_path, "".join(f"s{n}\tt{n}\n" for n in range(30)))
    data = data_config(source="pairs", paths=[str(path)], val_pairs=20)
    corpus = open_corpus(data, tokenizer_config(kind="character", vocab_size=100))
    assert corpus.val.documents == corpus.train.documents == 30


def test_the_split_never_changes():
    # Recorded: with another split, published scores would not be comparable.
    pairs = [(str(n), "x") for n in range(20)]
    assert [source for source, _ in pairs_of(split_pairs(documents_of(pairs), 0.1, 4)[1])] == [
        "4",
        "6",
        "10",
        "17",
    ]
