"""Every layer survives a round trip through its configuration; files of earlier versions load."""

from pathlib import Path

import keras
import numpy as np
import pytest

from minigpt.config import EncoderDecoderConfig, GPTConfig
from minigpt.layers import (
    BidirectionalSelfAttention,
    CausalSelfAttention,
    CrossAttention,
    DecoderBlock,
    EncoderBlock,
    ModernTransformerBlock,
    PreNormTransformerBlock,
    TokenAndPositionEmbedding,
    TransformerBlock,
)
from minigpt.models.layers.attention import SelfAttention
from minigpt.models.layers.dense import Dense

FILES = Path(__file__).resolve().parents[2] / "fixtures" / "keras_files"
PAIRS = (
    EncoderDecoderConfig(embed_dim=8, num_heads=2, ff_dim=12, value_dim=5).resolved().model_dump()
)


@pytest.mark.parametrize(
    "layer",
    [
        Dense(3, "relu"),
        TokenAndPositionEmbedding(5, 7, 8, position="sinusoidal", dropout_rate=0.25),
        CausalSelfAttention(
            **GPTConfig(num_heads=2, head_dim=4, num_kv_heads=1).model_dump(),
            kernel_initializer="he_normal",
            output_initializer="zeros",
        ),
        SelfAttention(2, 4, attention_dropout_rate=0.25),
        BidirectionalSelfAttention(**PAIRS),
        CrossAttention(**PAIRS),
        TransformerBlock(8, 2, 12, dropout_rate=0.25, head_dim=3, activation="gelu_tanh"),
        TransformerBlock(8, 3, feed_forward_dim=12, rate=0.25, key_dim=3, causal=False),
        PreNormTransformerBlock(8, 2, 12, activation="relu_squared", norm_epsilon=1e-5),
        ModernTransformerBlock(8, 2, 12, num_kv_heads=1, rotary_base=500.0, tie_embeddings=True),
        TransformerBlock(8, 2, 12, block="modern"),
        EncoderBlock(8, 2, 12, qkv_bias=False),
        EncoderBlock(8, 2, 12, block="modern"),
        DecoderBlock(**PAIRS, kernel_initializer="he_normal"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_config_round_trip(layer):
    config = keras.saving.serialize_keras_object(layer)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(layer)
    assert again.get_config() == layer.get_config()
    assert getattr(again, "config", None) == getattr(layer, "config", None)
    assert getattr(again, "causal", None) == getattr(layer, "causal", None)


SOURCE, LENGTHS = np.array([[3, 1, 4, 1, 5]], "int32"), np.array([3], "int32")


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("layers", [SOURCE, LENGTHS]),
        ("gpt_post_norm", SOURCE),
        ("gpt_pre_norm", SOURCE),
        ("gpt_modern", SOURCE),
        ("pairs", (SOURCE, LENGTHS, SOURCE)),
    ],
)
def test_a_model_that_an_earlier_version_saved(name, inputs):
    """Saved by commit 8854410. The paths of the weights in these files contain the names of classes."""
    model = keras.models.load_model(FILES / f"{name}.keras")
    np.testing.assert_allclose(model(inputs), np.load(FILES / f"{name}.npy"), atol=1e-6)
