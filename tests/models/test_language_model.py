"""A loss that never holds all logits is the plain loss, and so are its gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from minigpt.losses.chunked_crossentropy import chunked_crossentropy
from minigpt.losses.smoothed_crossentropy import SmoothedCrossentropy
from minigpt.models import GPT, EncoderDecoder

N, D, V = 23, 6, 11


@pytest.fixture
def head() -> dict[str, tf.Tensor]:
    draw = np.random.default_rng(0)
    return {
        "latents": tf.constant(draw.normal(size=(N, D), scale=2), tf.float32),
        "kernel": tf.constant(draw.normal(size=(V, D)), tf.float32),
        "bias": tf.constant(draw.normal(size=V), tf.float32),
    }


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("rows", [1, 4, 23, 100])
def test_loss_and_gradients_are_those_of_the_plain_formulation(head, rows, smoothing, jit):
    draw = np.random.default_rng(1)
    targets = tf.constant(draw.integers(0, V, N), tf.int32)
    weights = tf.constant(draw.integers(0, 2, N), tf.float32)
    loss_of_keras = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=smoothing, reduction="none"
    )

    @tf.function(jit_compile=jit)
    def ours(latents, kernel, bias):
        with tf.GradientTape() as tape:
            tape.watch((latents, kernel, bias))
            loss, plain = chunked_crossentropy(
                latents, kernel, bias, targets, weights, smoothing, slice_bytes=rows * 4 * V
            )
            # As a scaled loss does.
            scaled = 3 * loss
        return loss, plain, tape.gradient(scaled, (latents, kernel, bias))

    @tf.function
    def keras_own(latents, kernel, bias):
        with tf.GradientTape() as tape:
            tape.watch((latents, kernel, bias))
            logits = latents @ tf.transpose(kernel) + bias
            loss = tf.reduce_sum(weights * loss_of_keras(tf.one_hot(targets, V), logits))
            scaled = 3 * loss
        plain = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True)
        gradients = tape.gradient(scaled, (latents, kernel, bias))
        return loss, tf.reduce_sum(weights * plain), gradients

    for found, right in zip(
        tf.nest.flatten(ours(**head)), tf.nest.flatten(keras_own(**head)), strict=True
    ):
        largest = np.abs(right).max()
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-5 * largest)


def test_large_logits_are_no_problem():
    found, _ = chunked_crossentropy(
        tf.constant([[300.0]]), tf.constant([[1.0], [-1.0]]), None, tf.constant([1]), tf.ones(1)
    )
    assert found.numpy() == 600


def gpt(tie: bool, dtype: str = "float32") -> tuple[GPT, tuple[np.ndarray, np.ndarray]]:
    keras.utils.set_random_seed(1)
    sizes = {"vocab_size": V, "max_len": 8, "embed_dim": D, "num_heads": 2, "ff_dim": 12}
    model = GPT(**sizes, num_layers=2, dropout_rate=0.0, tie_embeddings=tie, dtype=dtype)
    model.build()
    ids = np.random.default_rng(2).integers(0, V, (5, 9)).astype("int32")
    return model, (ids[:, :-1], ids[:, 1:])


def encoder_decoder(tie: bool) -> tuple[EncoderDecoder, tuple]:
    keras.utils.set_random_seed(1)
    sizes = {"vocab_size": V, "max_len": 8, "embed_dim": D, "num_heads": 2, "ff_dim": 12}
    model = EncoderDecoder(**sizes, num_layers=1, dropout_rate=0.0, tie_embeddings=tie)
    model.build()
    draw = np.random.default_rng(2)
    source, target = draw.integers(0, V, (2, 5, 8)).astype("int32")
    weights = (np.arange(7) < draw.integers(1, 8, 5)[:, None]).astype("float32")
    inputs = (source, draw.integers(1, 9, 5).astype("int32"), target[:, :-1])
    return model, (inputs, target[:, 1:], weights)


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("build", [gpt, encoder_decoder])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_an_update_is_that_of_every_keras_model(build, tie, smoothing):
    trained, losses = [], []
    for own in (True, False):
        model, batch = build(tie)
        mean = "mean_with_sample_weight"
        plain = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=mean)
        model.compile(
            "sgd", loss=SmoothedCrossentropy(smoothing, reduction=mean) if smoothing else plain
        )
        assert model.uses_chunked_loss
        model.uses_chunked_loss = own
        losses.append(model.train_on_batch(*batch, return_dict=True)["loss"])
        trained.append(model.get_weights())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for ours, keras_own in zip(*trained, strict=True):
        np.testing.assert_allclose(ours, keras_own, rtol=0, atol=1e-6)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "mean", "mean_with_sample_weight"])
@pytest.mark.parametrize("share", [1.0, 0.4, 0.0])
def test_sample_weights_count_as_in_every_keras_model(reduction, share):
    """Weights of 0 alone change nothing; a penalty on a matrix counts too."""
    trained, losses = [], []
    for own in (True, False):
        model, (inputs, targets) = gpt(False)
        model.blocks[0].expand.kernel.regularizer = keras.regularizers.L2(0.1)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
        model.compile("sgd", loss=loss)
        assert model.uses_chunked_loss
        model.uses_chunked_loss = own
        weights = np.random.default_rng(3).random(targets.shape) < share
        logs = model.train_on_batch(inputs, targets, weights.astype("float32"), return_dict=True)
        losses.append(logs["loss"])
        trained.append(model.get_weights())
    if share:
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for ours, keras_own in zip(*trained, strict=True):
        np.testing.assert_allclose(ours, keras_own, rtol=0, atol=1e-6)


def test_half_precision_loses_no_more_than_that_of_every_keras_model():
    changes = []
    for dtype, own in (("float32", True), ("mixed_bfloat16", True), ("mixed_bfloat16", False)):
        model, batch = gpt(True, dtype)
        before = model.get_weights()
        model.compile("sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.uses_chunked_loss = own
        model.train_on_batch(*batch)
        after = model.get_weights()
        parts = [(b - a).ravel() for a, b in zip(before, after, strict=True)]
        changes.append(np.concatenate(parts))
    full, ours, keras_own = changes
    assert np.linalg.norm(ours - full) < 1.5 * np.linalg.norm(keras_own - full)


@pytest.mark.parametrize(
    "compiled",
    [
        {"loss": "sparse_categorical_crossentropy"},
        {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)},
        {
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "metrics": ["accuracy"],
        },
        {
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "loss_weights": 3.0,
        },
        {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")},
    ],
)
def test_what_it_cannot_compute_itself_is_left_to_keras(compiled):
    model, (inputs, targets) = gpt(False)
    model.compile("sgd", **compiled)
    assert not model.uses_chunked_loss
    assert np.isfinite(model.train_on_batch(inputs, targets, return_dict=True)["loss"])
