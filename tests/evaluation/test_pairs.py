"""Held-out pairs that are too long for the model."""

import numpy as np
import pytest

from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.token_ids import encode_texts
from minigpt.errors import UserError
from minigpt.evaluation.pairs import PairEvaluator, skipped_pairs_message
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.settings import tokenizer_config


@pytest.fixture(scope="module")
def tokenizer():
    return learn_tokenizer(["abc"], tokenizer_config(kind="character", vocab_size=16))


def pairs_of(tokenizer, *sentences):
    return Pairs(encode_texts(sentences, tokenizer).ids, tokenizer.end_id, max_len=4)


def test_skipped_pairs_are_counted_and_the_first_ones_shown(tokenizer):
    assert skipped_pairs_message(pairs_of(tokenizer, "a", "b"), tokenizer) == ""
    long = ["abcabc", "a"] * 2 + ["a", "abcab"] * 3
    message = skipped_pairs_message(pairs_of(tokenizer, "a", "b", *long), tokenizer)
    assert message.startswith("5 of 6 ") and message.endswith("'abcabc'")


def test_only_long_pairs_are_refused(tokenizer):
    pairs = pairs_of(tokenizer, "abcabc", "a", "a", "abcab")
    assert not np.any(pairs.fits)
    with pytest.raises(UserError, match=r"model\.max_len = 4"):
        PairEvaluator(None, tokenizer, pairs, 8, None)
