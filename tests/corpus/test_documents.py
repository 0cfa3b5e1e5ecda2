"""Documents in one memory-mapped file, and their pieces."""

import mmap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt.corpus.documents import Piece, ingest


def documents_of(*texts):
    return ingest(Piece(text.encode(), True) for text in texts)


def test_blank_documents_are_skipped():
    documents = documents_of("one", "", " \n", "two", "\t")
    assert list(documents.pieces()) == [("one", True), ("two", True)]
    assert documents.bytes == 6
    assert len(documents_of("", " ")) == 0


def test_a_document_in_several_pieces_is_one():
    pieces = [(b"a", False), (b"", False), (b"b", True), (b" ", False), (b"", True), (b"c", True)]
    documents = ingest(Piece(*piece) for piece in pieces)
    assert list(documents.pieces()) == [("ab", True), ("c", True)]


def test_no_file_is_left(tmp_path):
    documents = ingest([Piece(b"text", True)], tmp_path)
    assert documents.text[:] == b"text"
    assert not list(tmp_path.iterdir())


@settings(deadline=None)
@given(
    st.lists(st.text(st.sampled_from("ab é€😀\n"), max_size=60).filter(str.strip), min_size=1),
    st.integers(8, 30),
)
def test_pieces_join_to_the_documents(texts, size):
    joined, current = [], ""
    for piece, ends in documents_of(*texts).pieces(size):
        assert 0 < len(piece.encode()) <= max(size, max(len(t.encode()) for t in texts))
        assert len(piece.encode()) <= size
        current += piece
        if ends:
            joined.append(current)
            current = ""
    assert joined == texts and current == ""


@pytest.mark.slow
def test_the_memory_of_a_large_text_is_released(tmp_path):
    """256 MB, one document: without it, all of it would be counted as memory of the process."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    if not Path("/proc/self/statm").is_file():
        pytest.skip("the memory of the process is not in /proc/self/statm")
    block = b"word " * 200_000
    documents = ingest((Piece(block, n == 255) for n in range(256)), tmp_path)
    assert (len(documents), documents.bytes) == (1, 256_000_000)
    before, most = resident(), 0
    for _ in documents.pieces():
        most = max(most, resident())
    assert most - before < 150e6


def test_cut_before_the_white_space_after_a_word():
    pieces = [piece for piece, _ in documents_of("one two  three\n\nfour").pieces(9)]
    assert pieces == ["one two", "  three", "\n\nfour"]
    # The white space after the word may be the first byte that is left out.
    assert [piece for piece, _ in documents_of("one two three").pieces(7)] == ["one two", " three"]
