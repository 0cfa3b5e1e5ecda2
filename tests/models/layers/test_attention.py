"""Multi-head attention compared with `keras.layers.MultiHeadAttention`, and its cache."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from minigpt.layers import CausalSelfAttention


def with_random_weights(layer: keras.layers.Layer, seed: int = 0) -> keras.layers.Layer:
    draw = np.random.default_rng(seed)
    layer.set_weights([draw.normal(size=w.shape, scale=0.5) for w in layer.get_weights()])
    return layer


def keras_attention(ours: CausalSelfAttention, embed_dim: int) -> keras.layers.Layer:
    """Returns keras.layers.MultiHeadAttention with the same weights."""
    heads, widths = ours.num_heads, (ours.head_dim, ours.head_dim, ours.value_dim)
    use_bias = ours.config.qkv_bias
    theirs = keras.layers.MultiHeadAttention(
        heads, ours.head_dim, ours.value_dim, use_bias=use_bias
    )
    theirs.build((None, None, embed_dim), (None, None, embed_dim))
    ends = np.cumsum([heads * width for width in widths])[:-1]
    kernels, *biases = (np.split(w, ends, axis=-1) for w in ours.qkv.get_weights())
    parts = []
    for number, width in enumerate(widths):
        parts.append(kernels[number].reshape(embed_dim, heads, width))
        parts += [bias[number].reshape(heads, width) for bias in biases]
    output_kernel, output_bias = ours.output_projection.get_weights()
    parts.append(output_kernel.reshape(heads, ours.value_dim, embed_dim))
    # In Keras, use_bias applies to the output projection too, which always has a bias here.
    theirs.set_weights([*parts, *([output_bias] if use_bias else [])])
    return theirs


# 300 tokens are three blocks of queries, the last of which is shorter.
@pytest.mark.parametrize(
    ("heads", "width", "value_width", "embed_dim", "use_bias", "length"),
    [(2, 3, None, 6, True, 7), (3, 5, None, 8, False, 300), (2, 3, 5, 6, True, 300)],
)
def test_equals_keras_attention_with_the_same_weights(
    heads, width, value_width, embed_dim, use_bias, length
):
    ours = CausalSelfAttention(
        num_heads=heads, head_dim=width, value_dim=value_width, qkv_bias=use_bias
    )
    ours.build((None, None, embed_dim))
    with_random_weights(ours)
    if not use_bias:
        ours.output_projection.bias.assign(np.zeros(embed_dim))
    draw = np.random.default_rng(1)
    x, weights = tf.constant(draw.normal(size=(2, 2, length, embed_dim)), "float32")
    theirs = keras_attention(ours, embed_dim)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        results = ours(x), theirs(x, x, use_causal_mask=True)
        sums = [tf.reduce_sum(weights * result) for result in results]
    np.testing.assert_allclose(*results, atol=1e-5)
    np.testing.assert_allclose(*(tape.gradient(s, x) for s in sums), atol=1e-4)


@pytest.mark.parametrize("seed", [3, None, "generator"])
def test_queries_keys_and_values_have_initial_values_of_their_own(seed):
    if seed == "generator":
        seed = keras.random.SeedGenerator(3)
    ours = CausalSelfAttention(
        4, 16, 24, num_kv_heads=2, kernel_initializer=keras.initializers.GlorotUniform(seed)
    )
    ours.build((None, None, 32))
    parts = np.split(ours.qkv.get_weights()[0], [64, 96], axis=1)
    assert [part.shape for part in parts] == [(32, 64), (32, 32), (32, 48)]
    for part in parts:
        limit = np.sqrt(6 / sum(part.shape))
        assert 0.97 * limit < np.abs(part).max() <= limit
    for a, b in itertools.combinations(parts, 2):
        size = min(a.size, b.size)
        assert abs(np.corrcoef(a.ravel()[:size], b.ravel()[:size])[0, 1]) < 0.15
    if isinstance(seed, int):
        again = CausalSelfAttention.from_config(ours.get_config())
        again.build((None, None, 32))
        np.testing.assert_array_equal(again.get_weights()[0], ours.get_weights()[0])
