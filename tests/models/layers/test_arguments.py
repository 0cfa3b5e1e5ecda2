"""Arguments of layers and models: other names, the signature, and a refusal that names a wrong one."""

import keras
import numpy as np
import pytest

from minigpt.config import GPTConfig
from minigpt.layers import (
    CausalSelfAttention,
    CrossAttention,
    DecoderBlock,
    EncoderBlock,
    ModernTransformerBlock,
    PreNormTransformerBlock,
    TokenAndPositionEmbedding,
    TransformerBlock,
)
from minigpt.models import GPT, EncoderDecoder

BLOCKS = [
    TransformerBlock,
    PreNormTransformerBlock,
    ModernTransformerBlock,
    EncoderBlock,
    DecoderBlock,
]


def settings_of(layer: keras.layers.Layer) -> dict:
    """Returns what describes the layer, without its name."""
    return {name: value for name, value in layer.get_config().items() if name != "name"}


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_take_the_names_of_the_keras_examples(kind):
    expected = kind(embed_dim=8, num_heads=2, ff_dim=12, dropout_rate=0.3, head_dim=6)
    for arguments, settings in (
        ((8, 2, 12, 0.3), {"head_dim": 6}),
        ((8, 2, 12), {"rate": 0.3, "key_dim": 6}),
        ((8, 2), {"feed_forward_dim": 12, "dropout": 0.3, "key_dim": 6}),
        ((np.int64(8), np.int32(2), np.int64(12), np.float64(0.3)), {"key_dim": np.int64(6)}),
    ):
        found = kind(*arguments, **settings)
        assert settings_of(found) == settings_of(expected)
        assert (found.dropout1.rate, found.dropout2.rate, found.attention.head_dim) == (0.3, 0.3, 6)


def test_the_embedding_and_attention_take_the_names_of_keras():
    expected = settings_of(TokenAndPositionEmbedding(5, 7, 8, dropout_rate=0.3))
    found = TokenAndPositionEmbedding(maxlen=np.int64(5), vocab_size=7, embed_dim=8, rate=0.3)
    assert settings_of(found) == expected and found.dropout.rate == 0.3
    layer = CausalSelfAttention(num_heads=2, key_dim=3, dropout=0.25)
    assert settings_of(layer) == settings_of(CausalSelfAttention(2, 3, attention_dropout_rate=0.25))
    assert layer.dropout.rate == 0.25


@pytest.mark.parametrize("kind", [GPT, EncoderDecoder])
def test_models_take_the_names_too(kind):
    sizes = {"vocab_size": 13, "embed_dim": 8, "num_heads": 2}
    ours = kind(**sizes, max_len=9, dropout_rate=0.3, ff_dim=12, head_dim=6)
    theirs = kind(**sizes, maxlen=9, rate=0.3, feed_forward_dim=12, key_dim=6)
    assert theirs.config == ours.config
    assert settings_of(kind.from_config(theirs.get_config())) == settings_of(theirs)


def test_a_subclass_passes_other_names_on():
    class Mine(TransformerBlock):
        def __init__(self, width, rate=0.1, **kwargs):
            super().__init__(width, 2, feed_forward_dim=2 * width, rate=rate, **kwargs)

    config = Mine(8, 0.3).config
    assert (config.embed_dim, config.ff_dim, config.dropout_rate) == (8, 16, 0.3)


# What is called, its arguments, the error, and what its one line names.
WRONG = [
    (TransformerBlock, ((), {}), TypeError, "embed_dim"),
    (TransformerBlock, ((8, 2, 12, 0.1), {"rate": 0.1}), TypeError, "dropout_rate"),
    (DecoderBlock, ((8, 2, 12), {"rate": 0.1, "dropout_rate": 0.1}), TypeError, "rate"),
    (TransformerBlock, ((8, 2, 12), {"num_head": 3}), ValueError, "num_head"),
    (TransformerBlock, ((8, 2, 12), {"rate": 2}), ValueError, "dropout_rate"),
    (TransformerBlock, ((8, 2, 12, 0.1, "tanh"), {}), ValueError, "activation"),
    (TransformerBlock, ((8, 2, 12), {"causal": False, "convolution": 3}), ValueError, "causal"),
    (PreNormTransformerBlock, ((32, 3, 64), {}), ValueError, "num_heads"),
    (ModernTransformerBlock, ((6, 2, 64), {}), ValueError, "head_dim"),
    (CrossAttention, ((2, 3), {"dropout": 7}), ValueError, "attention_dropout_rate"),
    (TokenAndPositionEmbedding, ((5, 7), {}), TypeError, "embed_dim"),
    (TokenAndPositionEmbedding, ((5, 7, 8), {"maxlen": 5}), TypeError, "max_len"),
    (TokenAndPositionEmbedding, (("5", 7, 8), {}), ValueError, "max_len"),
    (GPT, ((), {"vocab_size": 13, "num_layers": 2000}), ValueError, "num_layers"),
    (GPT, ((), {"vocab_size": 13, "num_layer": 2}), ValueError, "num_layer"),
    (GPT, ((), {"vocab_size": 13, "kind": "encoder_decoder"}), ValueError, "kind"),
    (GPT, ((), {"vocab_size": 13, "max_len": 8, "maxlen": 8}), TypeError, "maxlen"),
    (GPT, ((GPTConfig(),), {}), TypeError, "vocab_size"),
    (GPT, ((), {"vocab_size": "a", "embed_dim": 8}), ValueError, "vocab_size"),
    (GPT, ((13, 8), {}), ValueError, "config"),
    (EncoderDecoder, ((GPTConfig(), 13), {}), ValueError, "kind"),
]


@pytest.mark.parametrize(("call", "arguments", "error", "named"), WRONG)
def test_a_wrong_argument_is_named_in_one_line(call, arguments, error, named):
    positional, settings = arguments
    with pytest.raises(error) as refused:
        call(*positional, **settings)
    assert named in str(refused.value) and "\n" not in str(refused.value)
