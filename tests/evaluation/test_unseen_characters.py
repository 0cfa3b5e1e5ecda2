"""Scores on a text with characters that the training text does not contain."""

import math

import numpy as np
import pytest

import minigpt
from minigpt.config import GPTConfig
from minigpt.models import GPT
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.settings import tokenizer_config


@pytest.fixture(scope="module")
def tokenizer():
    return learn_tokenizer(["abba ab"], tokenizer_config(kind="character", vocab_size=16))


def test_bits_per_byte_of_a_model(tokenizer):
    sizes = {"max_len": 4, "embed_dim": 8, "num_heads": 2, "num_layers": 1}
    model = GPT(GPTConfig(**sizes), tokenizer.vocab_size)
    draw = np.random.default_rng(0)
    model.set_weights([w + draw.normal(size=w.shape, scale=0.3) for w in model.get_weights()])
    # Tokens in front of each other: <end> a E2 98 83 b <end>, six targets in two windows of four.
    a, b = tokenizer.encode("ab").tolist()
    snowman = [tokenizer.byte_table[byte] for byte in (0xE2, 0x98, 0x83)]
    ids = [tokenizer.end_id, a, *snowman, b, tokenizer.end_id]
    bits = 0.0
    for start, stop in ((0, 4), (4, 6)):
        logits = np.array(model(np.array([ids[start:stop]], np.int32)))[0].astype(np.float64)
        for row, target in zip(logits, ids[start + 1 : stop + 1], strict=True):
            bits -= math.log2(np.exp(row[target]) / np.exp(row).sum())
    found = minigpt.TextModel(model, tokenizer).evaluate(["a☃b"])
    assert (found.tokens, found.bytes) == (6, 5)
    assert found.bits_per_byte == pytest.approx(bits / 5, rel=1e-5)
    assert found.loss == pytest.approx(bits * math.log(2) / 6, rel=1e-5)
