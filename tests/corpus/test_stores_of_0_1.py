"""Token stores of minigpt 0.1: their keys, their split, and when they are still used."""

import json

import numpy as np
import pytest

from minigpt.corpus.token_store import _Stores, open_corpus, reopen_corpus
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.closed_character import ClosedCharacterTokenizer
from tests.corpus.stores import CHARACTERS, TEXTS, decoded, files, pairs
from tests.settings import tokenizer_config

pytestmark = pytest.mark.usefixtures("cache")

# Recorded with minigpt 0.1: the keys and held-out texts of TEXTS, of TEXTS whose last three documents
# are copies of the first three, and of 40 pairs of which 30 are held out.
KEYS = {
    "plain": "6c91d3bcf787b15bbb0319f6ce027d62f2e04cbdd98bb8836ac945268cb7417e",
    "words": "c4b18ea9c636b69d85a865fa9d0e639ce8350d6a4b28ba7c9fbea07703a1f626",
    "byte_pair": "7f79b97d0b5eee03277c72e1214d2da0617c0ccbfd8fdc7f151e07934eaa091b",
    "copies": "bb2b2aaad8393ddfc7a333b7b2f04c7caefea5f67043189bc58ed33a5f0b18cc",
    "pairs": "08adfa1d99edafd1ff1d9a706c6f2cb761b9fc7ce5037c811119f571edc23568",
    "five_pairs": "a7a8bf8caa1255c31ab6d629a635cbc459a6d660717617cdeee4826dd4edf422",
    "thirty_pairs": "bbec0b08abfd0fc2aa3c3563b4e00c947515c57b7c7bf2dfe6629e54409752e6",
}
BYTE_PAIR = tokenizer_config(vocab_size=300)
COPIES = [TEXTS[number % 17] for number in range(20)]


def test_keys_are_those_of_minigpt_0_1(tmp_path):
    words = tokenizer_config(kind="word", vocab_size=100, lowercase=True)
    texts = files(tmp_path, TEXTS)
    assert open_corpus(texts, words).fingerprint == KEYS["words"]
    assert open_corpus(texts, BYTE_PAIR).fingerprint == KEYS["byte_pair"]
    for data, name in (
        (texts, "plain"),
        (pairs(tmp_path), "pairs"),
        (pairs(tmp_path, val_pairs=5), "five_pairs"),
    ):
        new, old = open_corpus(data, CHARACTERS), reopen_corpus(data, CHARACTERS, None, KEYS[name])
        assert new.split_rules == (1, 2) and old.fingerprint == KEYS[name] != new.fingerprint
        assert type(old.tokenizer) is ClosedCharacterTokenizer
        assert type(new.tokenizer) is CharacterTokenizer
        again = reopen_corpus(data, CHARACTERS, None, new.fingerprint)
        # What follows from the run, not from the text.
        again.tokenizer.own_start_id = new.tokenizer.own_start_id
        assert again.from_cache and again.tokenizer.fingerprint() == new.tokenizer.fingerprint()


def test_copies_are_counted_and_held_out_together(tmp_path, messages):
    corpus = open_corpus(files(tmp_path, COPIES), CHARACTERS)
    assert "3 documents are copies of others" in messages()
    train, val = (decoded(part, corpus.tokenizer)[0] for part in (corpus.train, corpus.val))
    assert sorted(train + val) == sorted(COPIES) and not set(train) & set(val)
    assert corpus.fingerprint != KEYS["copies"]
    again = open_corpus(files(tmp_path, COPIES), CHARACTERS)
    assert again.from_cache and again.fingerprint == corpus.fingerprint and again.duplicates == 3


def test_a_recorded_corpus_keeps_its_split(tmp_path):
    data = files(tmp_path, COPIES)
    new = open_corpus(data, CHARACTERS)
    old = reopen_corpus(data, CHARACTERS, None, KEYS["copies"])
    # What minigpt 0.1 held out, although "apple" is in the training text too.
    assert decoded(old.val, old.tokenizer) == (["knife and knifes", "apple and apples"], True)
    assert not old.from_cache and old.fingerprint == KEYS["copies"]
    for corpus in (old, new):
        again = reopen_corpus(data, CHARACTERS, None, corpus.fingerprint)
        assert again.from_cache and again.fingerprint == corpus.fingerprint
        np.testing.assert_array_equal(again.val.ids, corpus.val.ids)
    # A new training does not use the old split.
    assert open_corpus(data, CHARACTERS).fingerprint == new.fingerprint
    assert reopen_corpus(files(tmp_path, TEXTS), CHARACTERS, None, new.fingerprint) is None

    data = pairs(tmp_path, val_pairs=30)
    assert open_corpus(data, CHARACTERS).val.documents == 40
    assert reopen_corpus(data, CHARACTERS, None, KEYS["thirty_pairs"]).val.documents == 60


@pytest.mark.parametrize("texts", [TEXTS, COPIES])
def test_a_store_of_minigpt_0_1(tmp_path, texts):
    """It lacks the split rules, so a new training cannot know whether copies are on both sides."""
    data = files(tmp_path, texts)
    key = _Stores(data, BYTE_PAIR, None).folder(rule=1).name
    assert (key == KEYS["byte_pair"]) == (texts is TEXTS)
    old = reopen_corpus(data, BYTE_PAIR, None, key)
    meta = json.loads((old.path / "meta.json").read_text())
    del meta["split_rules"], meta["duplicates"]
    (old.path / "meta.json").write_text(json.dumps(meta))

    assert reopen_corpus(data, BYTE_PAIR, None, key).from_cache
    new = open_corpus(data, BYTE_PAIR)
    # The store is used where its split is right.
    assert (new.fingerprint == key) == new.from_cache == (texts is TEXTS)
    again = open_corpus(data, BYTE_PAIR)
    assert again.from_cache and again.fingerprint == new.fingerprint
    assert 2 in again.split_rules
