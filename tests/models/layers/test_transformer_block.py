"""Which tokens a block attends to, its activations, and what it refuses."""

import keras
import numpy as np
import pytest

from minigpt.layers import TransformerBlock
from minigpt.models.layers.transformer_block import BLOCKS
from minigpt.models.layers.variants import gelu_tanh, relu_squared
from tests.models.layers.test_attention import with_random_weights


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


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
        with pytest.raises(ValueError, match=r"value 8|ndim=3"):
            TransformerBlock(8, 2, 8)(keras.Input(shape))
