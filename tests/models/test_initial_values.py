"""Initial weights and first losses for a seed are those of earlier versions.

They were recorded when each matrix was first drawn by itself, with the distribution of Keras' layers. They
change if the order or the number of initializers, layers
or random operations changes; old seeds would then give other models. The losses are those of models without
dropout, and of an Adam that turns the gradient of a token table into a matrix first: Keras' Adam squares
the gradient of every occurrence of a token before it adds them up.
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
            "block": "pre_norm",
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
    "keras_example": [0.223504944, 0.00715350123],
    "gpt2": [0.040574857, 0.000457995676],
    "encoder_decoder": [0.250029361, -0.00312132982],
    "modern": [0.049544676, -0.00118323876],
    "modern_encoder_decoder": [0.213657187, -0.00996830634],
}
LOSSES = {
    "keras_example": [3.24697018, 2.49252534, 2.23361325],
    "gpt2": [2.56800604, 2.54065633, 2.49372005],
    "encoder_decoder": [3.03399134, 2.67500472, 2.47171974],
    "modern": [2.56494927, 2.52796125, 2.46894073],
    "modern_encoder_decoder": [2.96703148, 2.78123212, 2.5886302],
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
