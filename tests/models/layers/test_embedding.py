"""Token and position vectors."""

import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from minigpt.corpus.datasets import without_threads
from minigpt.layers import TokenAndPositionEmbedding
from minigpt.models.layers.positions import sinusoid


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


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("jit", [False, True])
def test_a_graph_refuses_a_sequence_longer_than_max_len(position, jit):
    layer = TokenAndPositionEmbedding(3, 7, 4, position=position)
    ids = np.array([[3, 1, 4], [1, 5, 6]], "int32")
    graph = tf.function(
        layer, jit_compile=jit, input_signature=[tf.TensorSpec([None, None], tf.int32)]
    )
    for length in range(1, 4):
        np.testing.assert_allclose(graph(ids[:, :length]), layer(ids[:, :length]), rtol=1e-6)
    message = "at most max_len = 3 tokens. Received:] [4]"
    if jit:  # XLA ignores assertions, but names the operation.
        message = "A_sequence_may_have_at_most_max_len_is_3_tokens"
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
        graph(np.zeros((2, 4), "int32"))


@pytest.mark.parametrize("method", ["fit", "predict"])
def test_keras_reports_a_sequence_longer_than_max_len(method):
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
        data = data if method == "fit" else data.map(lambda ids, _: ids)
        return data.apply(tf.data.experimental.assert_cardinality(1))

    options = {"fit": {"shuffle": False}, "predict": {}}[method]
    run = getattr(model, method)
    run(batches(3), verbose=0, **options)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"at most max_len = 3 tokens"):
        run(batches(4), verbose=0, **options)


def test_a_saved_model_refuses_a_sequence_longer_than_max_len(tmp_path):
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, TokenAndPositionEmbedding(3, 7, 4)(inputs))
    model.export(tmp_path / "model", verbose=False)
    saved = tf.saved_model.load(tmp_path / "model")
    ids = np.array([[3, 1, 4]], "int32")
    np.testing.assert_array_equal(saved.serve(ids), model(ids))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"at most max_len = 3 tokens"):
        saved.serve(np.zeros((1, 4), "int32"))


def test_the_two_tables_have_initial_values_of_their_own():
    initializer = keras.initializers.RandomNormal(stddev=0.02)
    layer = TokenAndPositionEmbedding(50, 60, 16, initializer=initializer)
    layer.build((None, None))
    tokens, positions = layer.token_embedding.embeddings.numpy()[:50], layer.position_table.numpy()
    assert abs(np.corrcoef(tokens.ravel(), positions.ravel())[0, 1]) < 0.15


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
