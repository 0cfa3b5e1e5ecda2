"""The contents of token stores."""

import numpy as np
import pytest

from minigpt.corpus import token_ids
from minigpt.corpus.documents import Documents, Piece, ingest
from minigpt.corpus.split import split
from minigpt.corpus.token_ids import encode_texts
from minigpt.corpus.token_store import even_sample, open_corpus, reopen_corpus
from minigpt.tokenizers.character import CharacterTokenizer
from tests.corpus.stores import CHARACTERS, TEXTS, decoded, files, pairs
from tests.settings import tokenizer_config

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize("kind", ["character", "byte_pair"])
def test_layout_of_whole_documents(tmp_path, cache, kind):
    config = tokenizer_config(kind=kind, vocab_size=300)
    corpus = open_corpus(files(tmp_path, TEXTS), config)
    train, val = split(ingest(Piece(text.encode(), True) for text in TEXTS), 0.1)
    for part, documents in ((corpus.train, train), (corpus.val, val)):
        texts = [text for text, _ in documents.pieces()]
        assert decoded(part, corpus.tokenizer) == (texts, True)
        assert part.ids.dtype == np.uint16 and isinstance(part.ids, np.memmap)
        assert part.documents == len(texts)
        assert part.bytes == sum(len(text.encode()) for text in texts)
        assert part.tokens == len(part.ids) - 1
    assert corpus.token_counts.dtype == np.int64
    np.testing.assert_array_equal(
        corpus.token_counts,
        np.bincount(corpus.train.ids[1:], minlength=corpus.tokenizer.vocab_size),
    )
    assert (corpus.train.documents, corpus.val.documents) == (18, 2)
    assert corpus.path == cache / "tokens" / corpus.fingerprint and not corpus.from_cache


def test_layout_of_a_text_cut_in_two(tmp_path):
    corpus = open_corpus(files(tmp_path, ["abcabcabca"]), CHARACTERS)
    assert decoded(corpus.train, corpus.tokenizer) == (["abcabcabc"], False)
    assert decoded(corpus.val, corpus.tokenizer) == (["a"], True)
    assert (corpus.train.tokens, corpus.val.tokens) == (9, 2)


def test_large_vocabularies_need_uint32(tmp_path, monkeypatch):
    tokenizer = open_corpus(files(tmp_path, TEXTS), CHARACTERS).tokenizer
    assert encode_texts(TEXTS, tokenizer).ids.dtype == np.uint16
    monkeypatch.setattr(type(tokenizer), "vocab_size", 65535)
    assert encode_texts(TEXTS, tokenizer).ids.dtype == np.uint16
    monkeypatch.setattr(type(tokenizer), "vocab_size", 65536)
    assert encode_texts(TEXTS, tokenizer).ids.dtype == np.uint32


@pytest.mark.parametrize("kind", ["character", "byte_pair", "word"])
def test_pieces_and_groups_do_not_change_the_ids(tmp_path, monkeypatch, kind):
    texts = [" ".join(TEXTS), "é  ü\n\n" * 50, "short"]
    config = tokenizer_config(kind=kind, vocab_size=400)
    tokenizer = open_corpus(files(tmp_path, texts), config).tokenizer
    whole = encode_texts(texts, tokenizer)
    monkeypatch.setattr(token_ids, "GROUP_BYTES", 50)
    monkeypatch.setattr(Documents.piece_spans, "__defaults__", (20,))
    np.testing.assert_array_equal(encode_texts(texts, tokenizer).ids, whole.ids)
    expected = np.concatenate(
        [[tokenizer.end_id], *([*tokenizer.encode(text), tokenizer.end_id] for text in texts)]
    )
    np.testing.assert_array_equal(whole.ids, expected)


@pytest.mark.parametrize("kind", ["character", "byte_pair", "word"])
def test_held_out_documents_never_reach_the_tokenizer(tmp_path, kind):
    config = tokenizer_config(kind=kind, vocab_size=300)
    first = open_corpus(files(tmp_path, TEXTS), config)
    _, val = split(ingest(Piece(text.encode(), True) for text in TEXTS), 0.1)
    held_out = {text for text, _ in val.pieces()}
    changed = [text.swapcase() if text in held_out else text for text in TEXTS]
    second = open_corpus(files(tmp_path, changed), config)
    assert not second.from_cache
    assert not np.array_equal(second.val.ids, first.val.ids)
    assert second.tokenizer.fingerprint() == first.tokenizer.fingerprint()
    np.testing.assert_array_equal(second.train.ids, first.train.ids)


def test_learning_from_an_even_sample(tmp_path, monkeypatch, messages):
    texts = [f"{number:03} " * 20 for number in range(1000)]
    documents = ingest(Piece(text.encode(), True) for text in texts)
    sample = [int(text[:3]) for text in even_sample(documents, documents.bytes // 10)]
    assert len(sample) == 100 and set(np.diff(sample)) == {10}
    assert list(even_sample(documents, documents.bytes)) == texts

    monkeypatch.setattr(CharacterTokenizer, "max_learn_bytes", 100)
    open_corpus(files(tmp_path, TEXTS), CHARACTERS)
    assert any("from 100 bytes, an even sample of" in line for line in messages())


COPIES = [TEXTS[number % 17] for number in range(20)]


def test_copies_are_counted_and_held_out_together(tmp_path, messages):
    corpus = open_corpus(files(tmp_path, COPIES), CHARACTERS)
    assert any("3 documents are copies of others; 17 would" in line for line in messages())
    train, val = (decoded(part, corpus.tokenizer)[0] for part in (corpus.train, corpus.val))
    assert sorted(train + val) == sorted(COPIES) and not set(train) & set(val)
    again = open_corpus(files(tmp_path, COPIES), CHARACTERS)
    assert again.from_cache and again.fingerprint == corpus.fingerprint and again.duplicates == 3


# Recorded with commit fbd710fe, whose runs have these fingerprints.
FINGERPRINTS = {
    "plain": "8468e25b53fb1ac9c8bf96848f062e25563750c420c9700778d1498e8e900add",
    "byte_pair": "7f79b97d0b5eee03277c72e1214d2da0617c0ccbfd8fdc7f151e07934eaa091b",
    "pairs": "624f739459bc427598420b48404746e44d874b35566c3079aa2e70a4c2070e7f",
    "five_pairs": "77e2a2ea187de1b50e48acd07f14fb0482f500401a4d776e2287e9eaceeb8267",
}


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_recorded_fingerprints_are_found(tmp_path, name):
    if name.endswith("pairs"):
        data = pairs(tmp_path, **({"val_pairs": 5} if name == "five_pairs" else {}))
    else:
        data = files(tmp_path, TEXTS)
    tokenizer = tokenizer_config(vocab_size=300) if name == "byte_pair" else CHARACTERS
    again = reopen_corpus(data, tokenizer, None, FINGERPRINTS[name])
    assert again.fingerprint == FINGERPRINTS[name]
    assert reopen_corpus(data, tokenizer, None, "0" * 64) is None
