"""Arguments of layers and models: other names, the signature, and one line for a wrong one."""

import inspect
import re

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
@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ((8, 2, 12, 0.3), {}),
        ((8, 2, 12), {"rate": 0.3}),
        ((8, 2, 12), {"dropout": 0.3}),
        ((8, 2), {"feed_forward_dim": 12, "dropout_rate": 0.3}),
        ((), {"embed_dim": 8, "num_heads": 2, "ff_dim": 12, "rate": 0.3}),
        ((np.int64(8), np.int32(2), np.int64(12), np.float64(0.3)), {}),
    ],
)
def test_blocks_take_the_names_of_the_keras_examples(kind, arguments, settings):
    expected = kind(embed_dim=8, num_heads=2, ff_dim=12, dropout_rate=0.3)
    assert settings_of(kind(*arguments, **settings)) == settings_of(expected)
    assert expected.dropout1.rate == expected.dropout2.rate == 0.3
    wide = kind(*arguments, **settings, key_dim=6)
    assert wide.attention.head_dim == wide.get_config()["head_dim"] == 6


@pytest.mark.parametrize("arguments", [(5, 7, 8), (np.int64(5), 7, np.int32(8))])
def test_the_embedding_takes_the_names_of_the_keras_examples(arguments):
    expected = settings_of(TokenAndPositionEmbedding(max_len=5, vocab_size=7, embed_dim=8))
    assert settings_of(TokenAndPositionEmbedding(*arguments)) == expected
    assert settings_of(TokenAndPositionEmbedding(maxlen=5, vocab_size=7, embed_dim=8)) == expected
    assert TokenAndPositionEmbedding(*arguments, rate=0.3).dropout.rate == 0.3


def test_attention_takes_the_names_of_keras():
    layer = CausalSelfAttention(2, 3, dropout=0.25)
    assert settings_of(CausalSelfAttention(num_heads=2, key_dim=3, dropout=0.25)) == settings_of(
        layer
    )
    assert layer.dropout.rate == 0.25


@pytest.mark.parametrize("kind", [GPT, EncoderDecoder])
def test_models_take_the_names_too(kind):
    sizes = {"vocab_size": 13, "embed_dim": 8, "num_heads": 2}
    ours = kind(**sizes, max_len=9, dropout_rate=0.3, ff_dim=12, head_dim=6)
    theirs = kind(**sizes, maxlen=9, rate=0.3, feed_forward_dim=12, key_dim=6)
    assert theirs.config == ours.config
    assert settings_of(kind.from_config(theirs.get_config())) == settings_of(theirs)


def test_a_model_with_other_names_is_saved_and_loaded(tmp_path):
    inputs = keras.Input((None,), dtype="int32")
    x = TokenAndPositionEmbedding(maxlen=5, vocab_size=7, embed_dim=8)(inputs)
    outputs = TransformerBlock(8, 3, feed_forward_dim=12, key_dim=6, rate=0.2, causal=False)(x)
    model = keras.Model(inputs, outputs)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    ids = np.array([[3, 1, 4, 1, 5]], "int32")
    np.testing.assert_array_equal(again(ids), model(ids))
    assert [settings_of(a) for a in again.layers[1:]] == [settings_of(a) for a in model.layers[1:]]


def test_a_subclass_passes_other_names_on():
    class Mine(TransformerBlock):
        def __init__(self, width, rate=0.1, **kwargs):
            super().__init__(width, 2, feed_forward_dim=2 * width, rate=rate, **kwargs)

    config = Mine(8, 0.3).config
    assert (config.embed_dim, config.ff_dim, config.dropout_rate) == (8, 16, 0.3)


def test_signatures_show_the_arguments():
    sizes = ["embed_dim", "num_heads", "ff_dim", "dropout_rate", "activation"]
    for kind in BLOCKS:
        parameters = inspect.signature(kind).parameters
        causal = ["causal"] if issubclass(kind, TransformerBlock) else []
        assert list(parameters) == [*sizes, *causal, "kwargs"]
        assert parameters["dropout_rate"].default == 0.1
        assert parameters["ff_dim"].default is inspect.Parameter.empty
    assert inspect.signature(TransformerBlock).parameters["causal"].default is True
    assert list(inspect.signature(CausalSelfAttention).parameters)[:3] == [
        "num_heads",
        "head_dim",
        "value_dim",
    ]
    assert list(inspect.signature(TokenAndPositionEmbedding).parameters)[:3] == [
        "max_len",
        "vocab_size",
        "embed_dim",
    ]


WRONG_BLOCKS = [
    ((), {}, TypeError, "{}(): missing a required argument: 'embed_dim'"),
    ((8, 2), {}, TypeError, "{}(): missing a required argument: 'ff_dim'"),
    ((8, 2, 12), {"embed_dim": 8}, TypeError, "{}(): multiple values for argument 'embed_dim'"),
    (
        (8, 2, 12, 0.1),
        {"rate": 0.1},
        TypeError,
        "{}(): multiple values for argument 'dropout_rate', given as 'rate'",
    ),
    (
        (8, 2, 12),
        {"rate": 0.1, "dropout_rate": 0.1},
        TypeError,
        "{}() got 'dropout_rate' and 'rate', which are the same argument",
    ),
    (
        (8, 2, 12),
        {"rate": 0.1, "dropout": 0.1},
        TypeError,
        "{}() got 'dropout' and 'rate', which are the same argument",
    ),
    (
        (8, 2, 12),
        {"num_head": 3},
        ValueError,
        "Unrecognized keyword arguments passed to {}: {{'num_head': 3}}",
    ),
    (("a", 2, 3), {}, ValueError, "`embed_dim` should be a valid integer. Received: 'a'"),
    ((8, 0, 12), {}, ValueError, "`num_heads` should be greater than or equal to 1. Received: 0"),
    ((8, 2, 12), {"rate": 2}, ValueError, "`rate` should be less than 1. Received: 2"),
    (
        (8, 2, 12),
        {"key_dim": 0},
        ValueError,
        "`key_dim` should be greater than or equal to 1. Received: 0",
    ),
    (
        (8, 2, 12, 0.1, "tanh"),
        {},
        ValueError,
        "`activation` should be 'relu', 'gelu', 'gelu_tanh', 'silu' or 'relu_squared'. Received: 'tanh'",
    ),
    (
        (8, 2.5, -1),
        {},
        ValueError,
        "`num_heads` should be a valid integer. Received: 2.5; "
        "`ff_dim` should be greater than or equal to 1. Received: -1",
    ),
]


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize(("arguments", "settings", "error", "message"), WRONG_BLOCKS, ids=str)
def test_a_wrong_argument_of_a_block_gets_one_line(kind, arguments, settings, error, message):
    with pytest.raises(error) as caught:
        kind(*arguments, **settings)
    assert str(caught.value) == message.format(kind.__name__)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: PreNormTransformerBlock(32, 3, 64),
            ValueError,
            "`num_heads` should divide embed_dim = 32, unless head_dim is set. Received: 3",
        ),
        (
            lambda: ModernTransformerBlock(6, 2, 64),
            ValueError,
            "`position` needs an even head_dim, not 3. Received: 'rotary'",
        ),
        (
            lambda: TransformerBlock(8, 2, 12, kind="x"),
            ValueError,
            "`kind` should be one of 'gpt', 'encoder_decoder'. Received: 'x'",
        ),
        (
            lambda: CausalSelfAttention(2),
            TypeError,
            "CausalSelfAttention(): missing a required argument: 'head_dim'",
        ),
        (
            lambda: CrossAttention(2, 3, dropout=7),
            ValueError,
            "`dropout` should be less than 1. Received: 7",
        ),
        (
            lambda: TokenAndPositionEmbedding(5, 7),
            TypeError,
            "TokenAndPositionEmbedding(): missing a required argument: 'embed_dim'",
        ),
        (
            lambda: TokenAndPositionEmbedding(5, 7, 8, maxlen=5),
            TypeError,
            "TokenAndPositionEmbedding(): multiple values for argument 'max_len', given as 'maxlen'",
        ),
        (
            lambda: TokenAndPositionEmbedding(5, 7, 8, rate="a"),
            ValueError,
            "`rate` should be a valid number. Received: 'a'",
        ),
        (
            lambda: TokenAndPositionEmbedding(5, 7, 8, rate=1.0),
            ValueError,
            "`rate` should be less than 1. Received: 1.0",
        ),
        (
            lambda: TokenAndPositionEmbedding("5", 7, 8),
            ValueError,
            "`max_len` should be a positive integer. Received: '5'",
        ),
        (
            lambda: TokenAndPositionEmbedding(5, 0, 8),
            ValueError,
            "`vocab_size` should be a positive integer. Received: 0",
        ),
        (
            lambda: GPT(vocab_size=13, num_layers=0),
            ValueError,
            "`num_layers` should be greater than or equal to 1. Received: 0",
        ),
        (
            lambda: GPT(vocab_size=13, num_layer=2),
            ValueError,
            "Unrecognized keyword arguments passed to GPT: {'num_layer': 2}",
        ),
        (
            lambda: GPT(vocab_size=13, max_len=8, maxlen=8),
            TypeError,
            "GPT() got 'max_len' and 'maxlen', which are the same argument",
        ),
        (lambda: GPT(), TypeError, "GPT needs the argument `vocab_size`"),
        (
            lambda: GPT(vocab_size="a", embed_dim=8),
            ValueError,
            "`vocab_size` should be a positive integer. Received: 'a'",
        ),
        (
            lambda: GPT(13),
            TypeError,
            "`config` should be a GPTConfig or an EncoderDecoderConfig; settings are keyword arguments. "
            "Received: 13",
        ),
        (
            lambda: EncoderDecoder(vocab_size=13, rate=3),
            ValueError,
            "`rate` should be less than 1. Received: 3",
        ),
        (
            lambda: EncoderDecoder(GPTConfig(), 13),
            ValueError,
            "`config.kind` should be 'encoder_decoder'. Received: 'gpt'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_wrong_arguments_get_one_line(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()
