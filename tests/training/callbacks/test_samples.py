"""TextGenerator in the `fit` of any Keras model."""

import keras
import numpy as np
import pytest

from minigpt.config import load_config
from minigpt.corpus.token_store import open_corpus
from minigpt.training.callbacks.samples import TextGenerator
from tests.conftest import tiny_settings

V, T = 320, 16


@pytest.fixture(scope="module")
def tokenizer(tiny_file):
    config = load_config(tiny_settings(tiny_file))
    return open_corpus(config.data, config.tokenizer).tokenizer


class Causal(keras.layers.Layer):
    """float[B, T, D] → the mean of the positions so far."""

    def call(self, x):
        counts = keras.ops.arange(1, keras.ops.shape(x)[1] + 1, dtype=x.dtype)
        return keras.ops.cumsum(x, axis=1) / counts[:, None]


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = keras.layers.Embedding(V, 8), keras.layers.Dense(V)

    def call(self, ids):
        return self.head(self.embedding(ids))


def sequential(*layers):
    return keras.Sequential([keras.layers.Embedding(V, 8), Causal(), *layers])


def functional():
    ids = keras.Input([T], dtype="int32")
    x = Causal()(keras.layers.Embedding(V, 8)(ids))
    return keras.Model(ids, keras.layers.Dense(V)(x))


def fit(model, generator, target_shape=(T,)):
    ids = np.random.default_rng(0).integers(3, V, (8, T)).astype("int32")
    targets = np.zeros((8, *target_shape), "int32")
    model.fit(ids, targets, batch_size=4, epochs=2, verbose=0, callbacks=[generator])


@pytest.mark.parametrize(
    "build", [lambda: sequential(keras.layers.Dense(V)), functional, Subclassed]
)
def test_models_that_map_ids_to_logits(build, tokenizer):
    model, shown, records = build(), [], []
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    # Longer than the context.
    generator = TextGenerator(
        tokenizer,
        ["Ana sat", ""],
        2 * T,
        temperature=0,
        show=lambda prompt, text: shown.append((prompt, text)),
        record=records.append,
        max_len=T,
    )
    fit(model, generator)
    assert [prompt for prompt, _ in shown] == ["Ana sat", "", "Ana sat", ""]
    assert [record["epoch"] for record in records] == [1, 1, 2, 2]
    # Greedy decoding without a loop of ours, with the final weights.
    ids = tokenizer.encode("Ana sat").tolist()
    start = len(ids)
    for _ in range(2 * T):
        window = ids[-T:]
        padded = np.array([window + [0] * (T - len(window))], "int32")
        logits = np.array(model(padded))[0, len(window) - 1]
        logits[tokenizer.never_sampled_ids] = -np.inf
        ids.append(int(logits.argmax()))
        if ids[-1] == tokenizer.end_id:
            ids.pop()
            break
    assert shown[2][1] == tokenizer.continuation(ids[:start], ids[start:])
