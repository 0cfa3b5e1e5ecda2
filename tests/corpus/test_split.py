"""The split into training and validation documents."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt.corpus.documents import Piece, ingest
from minigpt.corpus.split import count_duplicates, split
from minigpt.errors import UserError

# As runs of earlier versions, and the texts of the package.
by_documents = {"by_bytes": False}


def documents_of(*texts):
    return ingest(Piece(text.encode(), True) for text in texts)


def texts_of(documents):
    return [documents.text[start:stop].decode() for start, stop in documents.spans]


def parts_of(texts, fraction, **options):
    return tuple(texts_of(part) for part in split(documents_of(*texts), fraction, **options))


WORDS = st.text(st.sampled_from("ab é€"), min_size=1, max_size=30).map(lambda text: f"x{text}y")
LINES = st.lists(WORDS, min_size=1, max_size=5).map("\n".join)
BOOKS = st.lists(LINES, min_size=1, max_size=60).map("\n\n".join)
FRACTIONS = st.sampled_from([0.01, 0.02, 0.1, 0.3, 0.5, 0.9])


@settings(deadline=None)
@given(
    st.lists(BOOKS, min_size=1, max_size=14), st.lists(st.integers(0, 30), max_size=3), FRACTIONS
)
def test_the_share_of_the_bytes_is_held_out(texts, copied, fraction):
    texts += [texts[number % len(texts)] for number in copied]
    if len(set(texts)) == 1 < len(texts) or len(texts[0].encode()) < 4:
        return
    documents = documents_of(*texts)
    train, val = (texts_of(part) for part in split(documents, fraction))
    assert (train, val) == parts_of(texts, fraction)
    assert train and val
    size, held_out = documents.bytes, sum(len(text.encode()) for text in val)
    assert sum(len(text.encode()) for text in train) + held_out == size
    # Documents below 1,000 bytes and copies are the smallest pieces.
    paragraphs = max(len(part.encode()) for text in texts for part in text.split("\n\n"))
    whole = [t for t in texts if texts.count(t) > 1 or len(t.encode()) < 1000]
    piece = max(paragraphs + 2, *(len(t.encode()) * texts.count(t) for t in whole), 1)
    assert abs(held_out - fraction * size) <= piece + fraction * size / 1000 + 1
    # Every document is on one side, but one that is divided once.
    divided = [text for text in texts if text not in train and text not in val]
    assert len(divided) <= 1 and not set(train) & set(val) & set(texts)
    assert all(train[-1] + rest == text for text in divided for rest in set(val) - set(texts))


def test_one_file_of_a_folder_is_divided():
    # One whole file was a third of the text.
    texts = [f"Book {number}.\n\n" + f"Ana ate {number} figs.\n\n" * 2000 for number in range(11)]
    train, val = parts_of(texts, 0.02)
    size = sum(map(len, texts))
    assert len(val) == 1 and 0 <= 0.02 * size - len(val[0]) <= 30
    assert val[0].startswith("Ana ate") and train[-1].endswith("figs.\n\n")
    train, _ = split(documents_of(*texts), 0.02)
    assert [ends for _, ends in train.pieces()][-1] is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b\n" * 300 + "\n" + "c d\n" * 20, "c d\n" * 20),
        ("a b\n" * 330, "a b\n" * 33),
        ("abcd efgh " * 130, " efgh" + " abcd efgh" * 12 + " "),
        ("a€€€", "€"),
        ("abcd" * 300, "abcd" * 30),
    ],
    ids=["paragraph", "line", "space", "character", "no_space"],
)
def test_a_document_is_divided_at_a_paragraph_a_line_a_space_or_a_character(text, expected):
    train, val = parts_of([text], 0.1)
    assert (train, val) == ([text[: -len(expected)]], [expected])


def test_small_documents_are_not_divided():
    train, val = parts_of([f"review {number} " * 40 for number in range(12)], 0.05)
    assert (len(train), len(val)) == (11, 1)
    # Nor are dialogues of any size.
    train, val = parts_of(["Ana sat.\n" * 900, "7 figs.\n" * 900], 0.1, divides=False)
    assert (len(train), len(val)) == (1, 1)
    with pytest.raises(UserError, match="val_fraction"):
        parts_of(["Ana sat.\n" * 900], 0.1, divides=False)


@pytest.mark.parametrize(
    ("count", "fraction", "held"), [(10, 0.1, 1), (10, 0.01, 1), (99, 0.25, 25)]
)
@pytest.mark.parametrize("options", [{}, by_documents])
def test_whole_documents_are_held_out(count, fraction, held, options):
    texts = [f"document {number:02}" for number in range(count)]
    train, val = parts_of(texts, fraction, **options)
    assert abs(len(val) - held) <= (not options)
    assert sorted(train + val) == sorted(texts)
    assert train == sorted(train, key=texts.index)
    assert val != texts[-held:]


def test_at_least_one_document_is_left_for_training():
    assert len(parts_of("abcdefghij", 0.99)[0]) == 1


def test_the_split_never_changes():
    # Recorded: with another split, published scores would not be comparable.
    texts = [str(number) for number in range(20)]
    for options in ({}, by_documents):
        assert parts_of(texts, 0.2, **options)[1] == ["4", "6", "10", "17"]


COPIES = [f"document {number % 12}" for number in range(20)]


@pytest.mark.parametrize("options", [{}, by_documents])
def test_copies_are_on_one_side(options):
    train, val = parts_of(COPIES, 0.3, **options)
    assert not set(train) & set(val)
    assert sorted(train + val) == sorted(COPIES) and len(val) == 6


def test_a_large_document_with_copies_is_not_divided():
    """Its other copy has what would be held out."""
    copied = "Ana sat.\n" * 300
    for text in ("7 figs.\n" * 300, "7 figs.\n" * 600):
        for texts in ([copied, copied, text], [text, copied, copied]):
            _, (val,) = parts_of(texts, 0.1)
            assert val == "7 figs.\n" * (len(val) // 8)


def test_a_line_is_divided_only_while_more_than_half_is_missing():
    small, line = "Ana sat. " * 12, "7 figs. " * 150
    found = {tuple(parts_of(texts, 0.1)[1]) for texts in ([small, line], [line, small])}
    # The document that is drawn first decides.
    assert (small,) in found and len(found) == 2


@pytest.mark.parametrize("options", [{}, by_documents])
def test_a_document_with_many_copies_is_held_out_only_if_there_is_no_other(options):
    train, val = parts_of(["a"] * 7 + ["b"] * 6, 0.1, **options)
    assert (train, val) == (["a"] * 7, ["b"] * 6)
    with pytest.raises(UserError, match="all 13 documents are equal"):
        parts_of(["a"] * 13, 0.1, **options)


def test_duplicates_are_counted():
    assert count_duplicates(documents_of("a", "b", "a", "a"), pairs=False) == 2
    # Of pairs, source and target must be equal.
    assert count_duplicates(documents_of("a", "x", "a", "y", "a", "x"), pairs=True) == 1


def test_of_few_documents_the_tail_was_held_out():
    train, val = split(documents_of("aaaa", "bbbb", "cc"), 0.4, **by_documents)
    assert (texts_of(train), texts_of(val)) == (["aaaa", "bb"], ["bb", "cc"])
    assert [ends for _, ends in train.pieces()] == [True, False]
    assert [ends for _, ends in val.pieces()] == [True, True]
    train, val = split(documents_of("aaaa", "bbbb"), 0.5, **by_documents)
    assert (texts_of(train), texts_of(val)) == (["aaaa"], ["bbbb"])
    assert [ends for _, ends in train.pieces()] == [True]
    assert parts_of(["a€€€"], 0.5, **by_documents) == (["a€"], ["€€"])


@pytest.mark.parametrize("text", ["a", "€"])
def test_a_text_that_is_too_short(text):
    for options in ({}, by_documents):
        with pytest.raises(UserError, match="val_fraction"):
            parts_of([text], 0.9, **options)


def test_tiny_shakespeare_is_split_at_the_usual_position(shared_data):
    documents = documents_of((shared_data / "shakespeare.txt").read_text("utf-8"))
    train, val = split(documents, 0.1, **by_documents)
    assert (train.bytes, val.bytes) == (1_003_854, 111_540)
    # As a file of the user, it is divided at the next paragraph.
    train, val = split(documents, 0.1)
    assert 111_000 < val.bytes < 111_540 and bytes(val.text[val.spans[0, 0] - 2 :][:2]) == b"\n\n"
