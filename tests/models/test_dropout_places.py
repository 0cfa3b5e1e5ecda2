"""Where a GPT drops numbers in training: docs/systems.md, S1 to S3, in NumPy and with given masks."""

import keras
import numpy as np
import pytest

from minigpt.models import GPT
from minigpt.models.layers.dropout import Dropout

SIZES = {"vocab_size": 13, "max_len": 8, "embed_dim": 8, "num_heads": 2, "num_layers": 2}
# Each kind of dropout has a rate, and therefore masks, of its own.
SYSTEMS = {
    "S1": {"block": "post_norm", "dropout_rate": 0.2},
    "S2": {
        "block": "pre_norm",
        "position": "sinusoidal",
        "scale_embeddings": True,
        "dropout_rate": 0.2,
        "ff_dropout_rate": 0.4,
    },
    "S3": {
        "block": "pre_norm",
        "activation": "gelu_tanh",
        "dropout_rate": 0.2,
        "attention_dropout_rate": 0.3,
    },
}


def dropped(x: np.ndarray, rate: float) -> np.ndarray:
    """Returns `x` with the mask of this rate and shape."""
    kept = np.random.default_rng(round(100 * rate)).random(x.shape) >= rate
    return x * kept / (1 - rate)


@pytest.fixture
def given_masks(monkeypatch):
    def call(layer, inputs, training=False):
        if not training or not layer.rate:
            return inputs
        return inputs * dropped(np.ones(inputs.shape, "float32"), layer.rate).astype("float32")

    monkeypatch.setattr(Dropout, "call", call)


def activated(x: np.ndarray, name: str) -> np.ndarray:
    if name == "relu":
        return np.maximum(x, 0)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def logits_of(model: GPT, ids: np.ndarray) -> np.ndarray:
    """Computes the definitions, with the masks of `dropped`."""
    weights = {w.path.split("/", 1)[1]: w.numpy().astype("float64") for w in model.weights}
    c = model.config
    is_post = c.block == "post_norm"

    def dense(name, x):
        return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    def norm(name, x):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        unit = (x - mean) / np.sqrt(variance + 1e-6)
        return unit * weights[f"{name}/gamma"] + weights[f"{name}/beta"]

    def attention(name, x):
        rows, length = ids.shape
        parts = np.split(dense(f"{name}/qkv", x), 3, axis=-1)
        query, key, value = (
            part.reshape(rows, length, c.num_heads, c.head_dim).transpose(0, 2, 1, 3)
            for part in parts
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(c.head_dim)
        scores = np.exp(np.where(np.tri(length) > 0, scores, -np.inf))
        shares = dropped(scores / scores.sum(-1, keepdims=True), c.attention_dropout_rate)
        heads = (shares @ value).transpose(0, 2, 1, 3).reshape(rows, length, -1)
        return dense(f"{name}/output", heads)

    def feed_forward(name, x):
        inner = activated(dense(f"{name}/expand", x), c.activation)
        return dense(f"{name}/contract", dropped(inner, c.ff_dropout_rate))

    x = weights["embedding/token_embedding/embeddings"][ids]
    if c.scale_embeddings:
        x = x * np.sqrt(c.embed_dim)
    if c.position == "learned":
        x = x + weights["embedding/position_embedding"]
    else:
        places, entries = np.arange(c.max_len)[:, None], np.arange(c.embed_dim)
        angles = places / 10000 ** (entries // 2 * 2 / c.embed_dim)
        x = x + np.where(entries % 2, np.cos(angles), np.sin(angles))
    if not is_post:
        x = dropped(x, c.dropout_rate)
    for layer in range(c.num_layers):
        for number, sublayer in ((1, attention), (2, feed_forward)):
            name, norm_name = f"block{layer}", f"block{layer}/norm{number}"
            name += "/attention" if sublayer is attention else ""
            inputs = x if is_post else norm(norm_name, x)
            x = x + dropped(sublayer(name, inputs), c.dropout_rate)
            x = norm(norm_name, x) if is_post else x
    return dense("head", x if is_post else norm("final_norm", x))


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_training_pass_equals_the_definition(system, given_masks):
    keras.utils.set_random_seed(1)
    model = GPT(**SIZES, **SYSTEMS[system])
    model.build()
    draw = np.random.default_rng(0)
    model.set_weights([w + draw.normal(size=w.shape, scale=0.3) for w in model.get_weights()])
    ids = draw.integers(0, 13, (3, 8)).astype("int32")
    expected = logits_of(model, ids)
    np.testing.assert_allclose(model(ids, training=True), expected, atol=1e-4)
    assert np.abs(model(ids).numpy() - expected).max() > 0.1
