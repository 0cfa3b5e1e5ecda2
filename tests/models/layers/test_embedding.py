"""Token and position vectors."""

import math

import numpy as np
import pytest
import tensorflow as tf

from minigpt.layers import TokenAndPositionEmbedding
from minigpt.models.layers.variants import sinusoid


@pytest.mark.parametrize("embed_dim", [6, 7])
def test_sinusoid_equals_its_formula(embed_dim):
    table = sinusoid(11, embed_dim)
    for position in range(11):
        for i in range(embed_dim):
            angle = position / 10000 ** ((i - i % 2) / embed_dim)
            expected = math.cos(angle) if i % 2 else math.sin(angle)
            assert table[position, i] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_a_sequence_longer_than_max_len_is_refused(position):
    layer = TokenAndPositionEmbedding(3, 7, 4, position=position)
    with pytest.raises(ValueError, match="max_len = 3"):
        layer(np.zeros((1, 4), "int32"))
    ids = np.array([[3, 1, 4], [1, 5, 6]], "int32")
    graph = tf.function(layer, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    for length in range(1, 4):
        np.testing.assert_allclose(graph(ids[:, :length]), layer(ids[:, :length]), rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_len = 3"):
        graph(np.zeros((2, 4), "int32"))
