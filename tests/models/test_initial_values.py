"""Initial weights and first losses for a seed are those of earlier versions.

The numbers were recorded with commit 8f64533, those of the modern block with commit 80c3d3c. They change if
the order or the number of initializers, layers or random operations changes; old seeds would then give
other models.
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
# Mean of |w| over the weights, index-weighted mean, and three losses.
RECORDED = {
    "keras_example": [0.210474601, 0.000828699914, 3.12132978, 2.42402363, 2.22322655],
    "gpt2": [0.040663627, -3.1758373e-05, 2.5550189, 2.52987885, 2.47741199],
    "encoder_decoder": [0.246351732, 0.00476759494, 3.05788136, 2.7883811, 2.69701385],
    "modern": [0.0490900938, -0.000483008707, 2.56494927, 2.53034592, 2.47809649],
    "modern_encoder_decoder": [0.219916942, -0.00761619506, 3.07303715, 2.84543991, 2.70037556],
}


def measured(name: str) -> list[float]:
    kind, settings = MODELS[name]
    keras.utils.set_random_seed(7)
    model = kind(**SIZES, **settings)
    model.build()
    weights = np.concatenate([w.ravel() for w in model.get_weights()]).astype("float64")
    draw = np.random.default_rng(0)
    ids, source = draw.integers(0, 13, (4, 9)), draw.integers(0, 13, (4, 7))
    inputs = ids[:, :-1].astype("int32")
    if kind is EncoderDecoder:
        inputs = (source.astype("int32"), np.array([7, 4, 1, 3], "int32"), inputs)
    model.compile(
        keras.optimizers.Adam(1e-2),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=True,
    )
    losses = [float(model.train_on_batch(inputs, ids[:, 1:].astype("int32"))) for _ in range(3)]
    order = np.cos(np.arange(weights.size))
    return [np.abs(weights).mean(), (weights * order).mean(), *losses]


@pytest.mark.parametrize("name", MODELS)
def test_initial_weights_and_first_losses_for_a_seed(name):
    np.testing.assert_allclose(measured(name), RECORDED[name], rtol=1e-5)
