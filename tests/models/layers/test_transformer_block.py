"""The blocks compared with their definitions, written out in NumPy."""

import keras
import numpy as np
import pytest

from minigpt.config import GPTConfig
from minigpt.layers import (
    CausalSelfAttention,
    ModernTransformerBlock,
    TokenAndPositionEmbedding,
    TransformerBlock,
)
from minigpt.models.layers.activations import gelu_tanh, relu_squared
from minigpt.models.layers.transformer_block import BLOCKS


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


def test_modern_equals_its_definition(x):
    block = ModernTransformerBlock(embed_dim=8, num_heads=2, ff_dim=12)
    assert (block.config.position, block.config.activation) == ("rotary", "silu")
    block.build(x.shape)
    draw = np.random.default_rng(1)
    block.set_weights([draw.normal(size=w.shape, scale=0.5) for w in block.get_weights()])

    def norm(layer, x):
        (gain,) = layer.get_weights()
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gain

    x1 = x + keras.ops.convert_to_numpy(block.attention(norm(block.norm1, x)))
    (expand,), (contract,) = block.expand.get_weights(), block.contract.get_weights()
    gate, values = np.split(norm(block.norm2, x1) @ expand, 2, axis=-1)
    expected = x1 + (gate / (1 + np.exp(-gate)) * values) @ contract
    np.testing.assert_allclose(block(x), expected, atol=1e-5)


def test_dropout_inside_the_feed_forward_network(x):
    block = TransformerBlock(8, 2, 12, dropout_rate=0.0, ff_dropout_rate=0.5)
    block.build(x.shape)
    block.expand.set_weights([np.zeros((8, 12)), np.ones(12)])
    block.contract.set_weights([np.eye(12, 8), np.zeros(8)])
    # Half of the inner activations, all 1, are dropped; the others are doubled.
    dropped = keras.ops.convert_to_numpy(block.feed_forward(x, training=True))
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert (keras.ops.convert_to_numpy(block.feed_forward(x)) == 1.0).all()


@pytest.mark.parametrize("length", [5, None])
def test_a_functional_model_of_the_layers(length, tmp_path):
    """The construction of the Keras example."""
    inputs = keras.Input((length,), dtype="int32")
    x = TokenAndPositionEmbedding(5, 7, 8)(inputs)
    x = TransformerBlock(8, 3, feed_forward_dim=12, key_dim=6)(x)
    x = CausalSelfAttention(num_heads=2, head_dim=3)(x)
    model = keras.Model(inputs, [keras.layers.Dense(7)(x), x])
    assert model.output_shape == [(None, length, 7), (None, length, 8)]
    model.save(tmp_path / "model.keras")
    ids = np.array([[3, 1, 4, 1, 5]], "int32")
    again = keras.models.load_model(tmp_path / "model.keras")
    for first, second in zip(model(ids), again(ids), strict=True):
        np.testing.assert_array_equal(first, second)


def test_layer_norm_worked_example():
    """x = [2, -1, 3, 0] has mean 1 and variance 2.5; the result is [0.63, -1.26, 1.26, -0.63]."""
    block = TransformerBlock(embed_dim=4, num_heads=1, ff_dim=4)
    block.build((None, None, 4))
    out = keras.ops.convert_to_numpy(block.norm1(np.array([[[2.0, -1.0, 3.0, 0.0]]])))
    np.testing.assert_allclose(out[0, 0], [0.63, -1.26, 1.26, -0.63], atol=0.005)


@pytest.mark.parametrize(("kind", "block"), [(kind, name) for name, kind in BLOCKS.items()])
def test_each_kind_of_block_is_a_setting_and_has_a_name(x, kind, block):
    assert kind(**GPTConfig(block=block).resolved().model_dump()).config.block == block
    named, chosen = kind(8, 2, 12), TransformerBlock(8, 2, 12, block=block)
    assert named.config == chosen.config and named.config.block == block
    outputs = []
    for layer in (named, chosen):
        layer.build(x.shape)
        outputs.append(with_random_weights(layer)(x))
    np.testing.assert_array_equal(*outputs)


def with_random_weights(layer: keras.layers.Layer, seed: int = 0) -> keras.layers.Layer:
    draw = np.random.default_rng(seed)
    layer.set_weights([draw.normal(size=w.shape, scale=0.5) for w in layer.get_weights()])
    return layer


@pytest.mark.parametrize("kind", BLOCKS.values())
@pytest.mark.parametrize("causal", [True, False])
def test_causal_says_whether_tokens_attend_to_later_ones(kind, causal, x):
    block = kind(8, 2, 12, causal=causal)
    block.build(x.shape)
    with_random_weights(block)
    before = keras.ops.convert_to_numpy(block(x))
    for t in range(1, 5):
        changed = x.copy()
        changed[:, t] = changed[:, t, ::-1]
        difference = np.abs(keras.ops.convert_to_numpy(block(changed)) - before).max((0, 2))
        assert (difference[t:] > 1e-4).all() if causal else (difference > 1e-4).all()
        assert not causal or not difference[:t].any()


def test_a_block_that_is_not_causal_has_no_cache(x):
    block = TransformerBlock(8, 2, 12, causal=False)
    block.build(x.shape)
    assert block.call_with_cache(x)[1] is None
    with pytest.raises(ValueError, match="causal = False"):
        block.empty_cache(2, 9)
    with pytest.raises(ValueError, match="first_values"):
        TransformerBlock(8, 2, 8, value_residual=True)(x)


def test_activations_equal_their_formulas():
    x = np.linspace(-4, 4, 41)
    cubic = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    np.testing.assert_allclose(gelu_tanh(x), 0.5 * x * (1 + np.tanh(cubic)), atol=1e-5)
    np.testing.assert_allclose(relu_squared(x), np.where(x > 0, x * x, 0), atol=1e-5)


def test_an_input_of_another_width_is_refused_when_the_model_is_built():
    for shape in ((4, 9), (9,)):
        with pytest.raises(ValueError, match="embed_dim = 8"):
            TransformerBlock(8, 2, 8)(keras.Input(shape))
