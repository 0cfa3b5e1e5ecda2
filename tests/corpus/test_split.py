"""What is held out."""

import pytest

from minigpt.corpus.documents import Piece, ingest
from minigpt.corpus.split import split
from minigpt.errors import UserError


def documents_of(*texts):
    return ingest(Piece(text.encode(), True) for text in texts)


def texts_of(documents):
    return [documents.text[start:stop].decode() for start, stop in documents.spans]


@pytest.mark.parametrize(
    ("count", "fraction", "held"), [(10, 0.1, 1), (10, 0.01, 1), (99, 0.25, 25)]
)
def test_whole_documents_are_held_out(count, fraction, held):
    texts = [f"document {number}" for number in range(count)]
    train, val = (texts_of(part) for part in split(documents_of(*texts), fraction))
    assert len(val) == held
    assert sorted(train + val) == sorted(texts)
    assert train == sorted(train, key=texts.index)
    assert val != texts[-held:]


def test_something_is_left_for_training():
    assert len(split(documents_of(*"abcdefghij"), 0.99)[0]) == 1


def test_the_same_split_every_time():
    # Literally: a change of it would make every published score incomparable.
    documents = documents_of(*(str(number) for number in range(20)))
    assert texts_of(split(documents, 0.2)[1]) == ["4", "6", "10", "17"]


def test_few_documents_give_their_tail():
    train, val = split(documents_of("aaaa", "bbbb", "cc"), 0.4)
    assert (texts_of(train), texts_of(val)) == (["aaaa", "bb"], ["bb", "cc"])
    assert [ends for _, ends in train.pieces()] == [True, False]
    assert [ends for _, ends in val.pieces()] == [True, True]


def test_a_cut_between_documents_cuts_none():
    train, val = split(documents_of("aaaa", "bbbb"), 0.5)
    assert (texts_of(train), texts_of(val)) == (["aaaa"], ["bbbb"])
    assert [ends for _, ends in train.pieces()] == [True]


def test_the_cut_is_between_characters():
    train, val = split(documents_of("a€€€"), 0.5)
    assert (texts_of(train), texts_of(val)) == (["a€"], ["€€"])


@pytest.mark.parametrize("text", ["a", "€", "abc"])
def test_too_little_text(text):
    with pytest.raises(UserError, match="val_fraction"):
        split(documents_of(text), 0.9)


def test_tiny_shakespeare_is_split_where_everybody_splits_it(shared_data):
    train, val = split(documents_of((shared_data / "shakespeare.txt").read_text("utf-8")), 0.1)
    assert (train.bytes, val.bytes) == (1_003_854, 111_540)
