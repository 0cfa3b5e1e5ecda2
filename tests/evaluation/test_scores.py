"""Scores that follow from a loss, and baselines."""

import math

import numpy as np
import pytest

from minigpt.corpus.pair_batches import Pairs
from minigpt.corpus.token_ids import Part
from minigpt.evaluation.scores import baselines, pair_baselines, score

IDS = np.array([1, 2, 2, 3, 1, 2, 1], np.uint16)


def test_scores():
    # 6 targets in 10 bytes: 0.5 nats a token are 3 nats, or 4.328 bits.
    scored = score(0.5, Part(IDS, documents=2, bytes=10, unknown_tokens=0), lossless=True)
    assert scored.as_dict() == pytest.approx(
        {"loss": 0.5, "perplexity": 1.6487, "bits_per_byte": 0.43281, "tokens": 6, "bytes": 10},
        rel=1e-4,
    )
    assert math.isfinite(score(1e6, Part(IDS, 2, 10, 0), lossless=True).perplexity)


@pytest.mark.parametrize(
    ("part", "lossless"),
    [(Part(IDS, 2, 10, 0), False), (Part(IDS, 2, 10, 1), True), (Part(IDS, 2, 0, 0), True)],
)
def test_no_bits_per_byte_if_text_was_lost(part, lossless):
    assert score(0.5, part, lossless).bits_per_byte is None


def test_baselines():
    uniform, unigram = baselines(Part(IDS, 2, 10, 0), np.array([0, 2, 5, 1]))
    # Frequencies with one added: 1, 3, 6 and 2 of 12; the targets are 2, 2, 3, 1, 2, 1.
    expected = -(3 * math.log(6 / 12) + math.log(2 / 12) + 2 * math.log(3 / 12)) / 6
    assert (uniform, unigram) == pytest.approx((math.log(4), expected))


def test_pair_baselines_count_the_targets_that_fit():
    # Pairs 2 → 3 3 and 2 → 3 4 4 4 4; the second is too long.
    train = Pairs(np.array([1, 2, 1, 3, 3, 1, 2, 1, 3, 4, 4, 4, 4, 1]), end_id=1, max_len=4)
    val = Pairs(np.array([1, 2, 1, 4, 1]), end_id=1, max_len=4)
    uniform, unigram = pair_baselines(train, val, vocab_size=5)
    # Training targets 3, 3, 1 with one added: 1, 2, 1, 3 and 1 of 8; held-out targets 4 and 1.
    assert uniform == pytest.approx(math.log(5))
    assert unigram == pytest.approx(-(math.log(1 / 8) + math.log(2 / 8)) / 2)
