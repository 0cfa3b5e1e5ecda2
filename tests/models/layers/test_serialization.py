"""Every layer survives a round trip through its configuration; layers of earlier versions load."""

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


def serialized(class_name: str, **settings) -> dict:
    """Returns a layer as earlier versions serialized it."""
    return {
        "module": "minigpt.layers",
        "class_name": class_name,
        "config": {"name": "layer", "trainable": True, "dtype": "float32", **settings},
        "registered_name": f"minigpt>{class_name}",
    }


INITIALIZERS = {"kernel_initializer": "he_normal", "output_initializer": "zeros"}
EARLIER_ATTENTION = {
    "num_heads": 2,
    "head_dim": 3,
    "value_dim": 5,
    "use_bias": False,
    "dropout_rate": 0.25,
    **INITIALIZERS,
}
EARLIER_BLOCK = {
    "embed_dim": 8,
    "num_heads": 2,
    "ff_dim": 12,
    "dropout_rate": 0.25,
    "head_dim": 3,
    "activation": "silu",
    "value_dim": 5,
    "qkv_bias": False,
    "attention_dropout_rate": 0.125,
    "ff_dropout_rate": 0.375,
    "norm_epsilon": 1e-5,
    **INITIALIZERS,
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("MultiHeadAttention", CausalSelfAttention), ("SourceAttention", CrossAttention)],
)
def test_attention_of_an_earlier_version(name, kind):
    layer = keras.saving.deserialize_keras_object(serialized(name, **EARLIER_ATTENTION))
    assert isinstance(layer, kind)
    assert (layer.num_heads, layer.head_dim, layer.value_dim) == (2, 3, 5)
    assert not layer.config.qkv_bias
    assert layer.dropout.rate == 0.25
    assert isinstance(layer.kernel_initializer, keras.initializers.HeNormal)
    assert isinstance(layer.output_initializer, keras.initializers.Zeros)


@pytest.mark.parametrize(
    "kind", [TransformerBlock, PreNormTransformerBlock, EncoderBlock, DecoderBlock]
)
def test_block_of_an_earlier_version(kind):
    layer = keras.saving.deserialize_keras_object(serialized(kind.__name__, **EARLIER_BLOCK))
    assert type(layer) is kind
    config = layer.get_config()
    assert {name: config[name] for name in EARLIER_BLOCK.keys() - INITIALIZERS.keys()} == {
        name: value for name, value in EARLIER_BLOCK.items() if name not in INITIALIZERS
    }
    assert layer.norm1.epsilon == 1e-5
    assert (layer.dropout1.rate, layer.ff_dropout.rate) == (0.25, 0.375)
    assert (layer.attention.dropout.rate, layer.attention.value_dim) == (0.125, 5)


def test_a_functional_model_that_an_earlier_version_saved():
    """Saved by commit 8f64533: the five layers, MultiHeadAttention and its weights among them."""
    model = keras.models.load_model(FILES / "layers.keras")
    inputs = [np.array([[3, 1, 4, 1, 5]], "int32"), np.array([3], "int32")]
    np.testing.assert_allclose(model(inputs), np.load(FILES / "layers.npy"), atol=1e-6)
