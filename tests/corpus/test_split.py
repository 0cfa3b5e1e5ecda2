"""The split into training and validation documents."""

import pytest

from minigpt.corpus.documents import Piece, ingest
from minigpt.corpus.split import count_duplicates, split
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


def test_at_least_one_document_is_left_for_training():
    assert len(split(documents_of(*"abcdefghij"), 0.99)[0]) == 1


def test_the_split_never_changes():
    # Recorded: with another split, published scores would not be comparable.
    documents = documents_of(*(str(number) for number in range(20)))
    assert texts_of(split(documents, 0.2)[1]) == ["4", "6", "10", "17"]


COPIES = [f"document {number % 12}" for number in range(20)]


def test_copies_are_on_one_side():
    train, val = (texts_of(part) for part in split(documents_of(*COPIES), 0.3))
    assert not set(train) & set(val)
    assert sorted(train + val) == sorted(COPIES) and len(val) == 6


def test_a_document_with_many_copies_is_held_out_only_if_there_is_no_other():
    train, val = split(documents_of(*["a"] * 7, *["b"] * 6), 0.1)
    assert (texts_of(train), texts_of(val)) == (["a"] * 7, ["b"] * 6)
    with pytest.raises(UserError, match="all 13 documents are equal"):
        split(documents_of(*["a"] * 13), 0.1)


def test_duplicates_are_counted():
    assert count_duplicates(documents_of("a", "b", "a", "a"), pairs=False) == 2
    # Of pairs, source and target must be equal.
    assert count_duplicates(documents_of("a", "x", "a", "y", "a", "x"), pairs=True) == 1


def test_of_few_documents_the_tail_is_held_out():
    train, val = split(documents_of("aaaa", "bbbb", "cc"), 0.4)
    assert (texts_of(train), texts_of(val)) == (["aaaa", "bb"], ["bb", "cc"])
    assert [ends for _, ends in train.pieces()] == [True, False]
    assert [ends for _, ends in val.pieces()] == [True, True]


def test_a_cut_between_documents_divides_none():
    train, val = split(documents_of("aaaa", "bbbb"), 0.5)
    assert (texts_of(train), texts_of(val)) == (["aaaa"], ["bbbb"])
    assert [ends for _, ends in train.pieces()] == [True]


def test_the_cut_is_between_characters():
    train, val = split(documents_of("a€€€"), 0.5)
    assert (texts_of(train), texts_of(val)) == (["a€"], ["€€"])


@pytest.mark.parametrize("text", ["a", "€", "abc"])
def test_a_text_that_is_too_short(text):
    with pytest.raises(UserError, match="val_fraction"):
        split(documents_of(text), 0.9)


def test_tiny_shakespeare_is_split_at_the_usual_position(shared_data):
    train, val = split(documents_of((shared_data / "shakespeare.txt").read_text("utf-8")), 0.1)
    assert (train.bytes, val.bytes) == (1_003_854, 111_540)
