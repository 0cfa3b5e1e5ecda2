"""Initial weights and first losses for a seed are those of earlier versions.

The weights were recorded with commit 8f64533, those of the modern block with commit 80c3d3c. They change if
the order or the number of initializers, layers or random operations changes; old seeds would then give
other models. The losses are those of models without dropout, because later versions draw other dropout
masks. They were recorded with commit f3540e9 and an Adam that turns the gradient of a token table into a
matrix first: Keras' Adam squares the gradient of every occurrence of a token before it adds them up.
"""

import keras
import numpy as np
import pytest

from minigpt.models import GPT, EncoderDecoder

SIZES = {"vocab_size": 13, "max_len": 8, "embed_dim": 8, "num_heads": 2, "ff_dim": 16}
DROPOUT = {"dropout_rate": 0.1, "attention_dropout_rate": 0.1, "ff_dropout_rate": 0.1}
MODELS = {
    "keras_example": (GPT, {"num_layers": 2, **DROPOUT}),
    "gpt2": (
        GPT,
        {
            "num_layers": 2,
            "norm": "pre",
            "activation": "gelu_tanh",
            "tie_embeddings": True,
            **DROPOUT,
        },
    ),
    "encoder_decoder": (EncoderDecoder, {"num_layers": 1, "tie_embeddings": False, **DROPOUT}),
    "modern": (GPT, {"num_layers": 2, "block": "modern", "num_kv_heads": 1, **DROPOUT}),
    "modern_encoder_decoder": (EncoderDecoder, {"num_layers": 1, "block": "modern", **DROPOUT}),
}
# Mean of |w| over the weights, and index-weighted mean.
WEIGHTS = {
    "keras_example": [0.210474601, 0.000828699914],
    "gpt2": [0.040663627, -3.1758373e-05],
    "encoder_decoder": [0.246351732, 0.00476759494],
    "modern": [0.0490900938, -0.000483008707],
    "modern_encoder_decoder": [0.219916942, -0.00761619506],
}
LOSSES = {
    "keras_example": [3.23751187, 2.67609072, 2.32408142],
    "gpt2": [2.55373335, 2.52578115, 2.47649384],
    "encoder_decoder": [2.71669674, 2.45409346, 2.25961065],
    "modern": [2.56494927, 2.52796125, 2.46909618],
    "modern_encoder_decoder": [2.87111425, 2.66679287, 2.45930529],
}


def build(name: str, **changes: float) -> keras.Model:
    kind, settings = MODELS[name]
    keras.utils.set_random_seed(7)
    model = kind(**SIZES, **settings | changes)
    model.build()
    return model


@pytest.mark.parametrize("name", MODELS)
def test_initial_weights_for_a_seed(name):
    model = build(name)
    weights = np.concatenate([w.ravel() for w in model.get_weights()]).astype("float64")
    order = np.cos(np.arange(weights.size))
    found = [np.abs(weights).mean(), (weights * order).mean()]
    np.testing.assert_allclose(found, WEIGHTS[name], rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_first_losses_for_a_seed(name):
    model = build(name, **dict.fromkeys(DROPOUT, 0.0))
    draw = np.random.default_rng(0)
    ids, source = draw.integers(0, 13, (4, 9)), draw.integers(0, 13, (4, 7))
    inputs = ids[:, :-1].astype("int32")
    if isinstance(model, EncoderDecoder):
        inputs = (source.astype("int32"), np.array([7, 4, 1, 3], "int32"), inputs)
    model.compile(
        keras.optimizers.Adam(1e-2),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=True,
    )
    losses = [float(model.train_on_batch(inputs, ids[:, 1:].astype("int32"))) for _ in range(3)]
    np.testing.assert_allclose(losses, LOSSES[name], rtol=1e-5)


def test_adam_squares_the_whole_gradient_of_a_token():
    """The first step of Adam is the learning rate times the sign of the gradient, for every element."""
    model = build("keras_example", **dict.fromkeys(DROPOUT, 0.0))
    model.compile(
        keras.optimizers.Adam(1e-2, epsilon=1e-12),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=True,
    )
    table = model.embedding.token_embedding.embeddings
    before = keras.ops.convert_to_numpy(table)
    model.train_on_batch(np.array([[5, 5, 5, 2, 2, 7]]), np.array([[5, 5, 2, 2, 7, 1]]))
    change = np.abs(keras.ops.convert_to_numpy(table) - before)
    np.testing.assert_allclose(change[[2, 5, 7]], 1e-2, rtol=1e-3)
    assert not change[[0, 1, 3, 4]].any()
