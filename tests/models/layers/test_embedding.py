"""Token and position vectors."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from minigpt.corpus.datasets import without_threads
from minigpt.layers import TokenAndPositionEmbedding
from minigpt.models.layers.positions import sinusoid


@pytest.mark.parametrize("embed_dim", [6, 7])
def test_sinusoid_equals_its_formula(embed_dim):
    table = sinusoid(11, embed_dim)
    for position in range(11):
        for i in range(embed_dim):
            angle = position / 10000 ** ((i - i % 2) / embed_dim)
            expected = math.cos(angle) if i % 2 else math.sin(angle)
            assert table[position, i] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("position", ["learned", "rotary"])
@pytest.mark.parametrize("jit", [False, True])
def test_a_sequence_longer_than_max_len_is_refused(position, jit):
    layer = TokenAndPositionEmbedding(3, 7, 4, position=position)
    with pytest.raises(ValueError, match="max_len = 3"):
        layer(np.zeros((1, 4), "int32"))
    ids = np.array([[3, 1, 4], [1, 5, 6]], "int32")
    graph = tf.function(
        layer, jit_compile=jit, input_signature=[tf.TensorSpec([None, None], tf.int32)]
    )
    for length in range(1, 4):
        np.testing.assert_allclose(graph(ids[:, :length]), layer(ids[:, :length]), rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"max_len(_is_| = )3"):
        graph(np.zeros((2, 4), "int32"))


def test_keras_reports_a_sequence_longer_than_max_len():
    inputs = keras.Input((None,), dtype="int32")
    x = TokenAndPositionEmbedding(3, 7, 4)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(7)(x))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def batches(length):
        ids = tf.zeros((2, length), tf.int32)
        shapes = (tf.TensorSpec([None, None], tf.int32),) * 2
        data = without_threads(
            tf.data.Dataset.from_generator(lambda: [(ids, ids)], output_signature=shapes)
        )
        return data.apply(tf.data.experimental.assert_cardinality(1))

    model.fit(batches(3), shuffle=False, verbose=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_len = 3"):
        model.fit(batches(4), shuffle=False, verbose=0)
