"""Token and position vectors."""

import math

import keras
import numpy as np
import pytest

from minigpt.layers import TokenAndPositionEmbedding
from minigpt.layers.positions import sinusoid


def test_sum_of_both_tables():
    layer = TokenAndPositionEmbedding(max_len=5, vocab_size=7, embed_dim=4)
    ids = np.array([[3, 0, 6], [1, 1, 2]], "int32")
    out = keras.ops.convert_to_numpy(layer(ids))
    tokens, positions = layer.token_embedding.embeddings.numpy(), layer.position_table.numpy()
    for row in range(2):
        for position in range(3):
            expected = tokens[ids[row, position]] + positions[position]
            np.testing.assert_allclose(out[row, position], expected, rtol=1e-6)


def test_index_is_the_position_of_the_first_token():
    layer = TokenAndPositionEmbedding(max_len=9, vocab_size=7, embed_dim=4)
    whole = layer(np.arange(7, dtype="int32")[None])
    part = layer(np.array([[2, 3], [4, 5]], "int32"), index=np.array([2, 4], "int32"))
    np.testing.assert_allclose(part[0], whole[0, 2:4])
    np.testing.assert_allclose(part[1], whole[0, 4:6])


@pytest.mark.parametrize("embed_dim", [6, 7])
def test_sinusoid_equals_its_formula(embed_dim):
    table = sinusoid(11, embed_dim)
    for position in range(11):
        for i in range(embed_dim):
            angle = position / 10000 ** ((i - i % 2) / embed_dim)
            expected = math.cos(angle) if i % 2 else math.sin(angle)
            assert table[position, i] == pytest.approx(expected, abs=1e-6)


def test_sinusoidal_positions_are_not_trained():
    layer = TokenAndPositionEmbedding(5, 7, 4, position="sinusoidal")
    out = layer(np.array([[1, 2]], "int32"))
    assert [tuple(v.shape) for v in layer.trainable_variables] == [(7, 4)]
    tokens = layer.token_embedding.embeddings.numpy()
    np.testing.assert_allclose(out[0], tokens[[1, 2]] + sinusoid(5, 4)[:2], rtol=1e-6)


def test_a_sequence_longer_than_max_len_is_refused():
    layer = TokenAndPositionEmbedding(max_len=3, vocab_size=7, embed_dim=4)
    with pytest.raises(ValueError, match=r"at most max_len = 3 tokens\. Received: 4"):
        layer(np.zeros((1, 4), "int32"))


def test_tied_head_multiplies_by_the_token_table():
    layer = TokenAndPositionEmbedding(max_len=3, vocab_size=7, embed_dim=4)
    layer.build((None, None))
    latents = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    expected = latents @ layer.token_embedding.embeddings.numpy().T
    np.testing.assert_allclose(layer.logits(latents), expected, rtol=1e-5, atol=1e-7)


def test_unknown_position_kind():
    with pytest.raises(ValueError, match="Received: unknown"):
        TokenAndPositionEmbedding(3, 7, 4, position="unknown")


def test_scaled_token_vectors():
    layer = TokenAndPositionEmbedding(5, 7, 4, position="sinusoidal", scale=True)
    out = layer(np.array([[1, 2]], "int32"))
    tokens = layer.token_embedding.embeddings.numpy()
    np.testing.assert_allclose(out[0], 2.0 * tokens[[1, 2]] + sinusoid(5, 4)[:2], rtol=1e-6)
