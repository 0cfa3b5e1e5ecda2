"""The chunked loss and its gradients equal those of Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from minigpt.models.losses import chunked_crossentropy, r_drop_crossentropy

N, D, V = 23, 6, 11


@pytest.fixture
def head() -> dict[str, tf.Tensor]:
    draw = np.random.default_rng(0)
    return {
        "latents": tf.constant(draw.normal(size=(N, D), scale=2), tf.float32),
        "kernel": tf.constant(draw.normal(size=(V, D)), tf.float32),
        "bias": tf.constant(draw.normal(size=V), tf.float32),
    }


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize(
    ("rows", "jit"), [(1, False), (4, False), (4, True), (23, False), (100, True)]
)
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
                latents, kernel, bias, targets, weights, smoothing, chunk_bytes=rows * 4 * V
            )
            # Like loss scaling.
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


def test_large_logits_do_not_overflow():
    found, _ = chunked_crossentropy(
        tf.constant([[300.0]]), tf.constant([[1.0], [-1.0]]), None, tf.constant([1]), tf.ones(1)
    )
    assert found.numpy() == 600


def test_r_drop_adds_the_divergence_of_equal_rows_in_both_directions():
    draw = np.random.default_rng(3)
    logits = draw.normal(size=(5, 3, V)).astype("float32")
    # Pairs and a row alone, whose last target differs from those of the next one.
    texts = draw.integers(0, V - 1, (3, 3)).astype("int32")
    texts[1] = texts[2] + [0, 0, 1]
    rows = [0, 0, 1, 2, 2]
    targets = texts[rows]
    weights = np.array([[1, 0, 2], [1, 1, 1], [1, 1, 0]], "float32")[rows]
    found, plain = r_drop_crossentropy(logits, targets, weights, 1.4)
    cross = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True)
    p, q = keras.ops.softmax(logits[[0, 3]]), keras.ops.softmax(logits[[1, 4]])
    both_ways = keras.losses.kl_divergence(p, q) + keras.losses.kl_divergence(q, p)
    assert float(plain) == pytest.approx(np.sum(weights * cross), rel=1e-5)
    more = np.sum(weights[[0, 3]] * np.array(both_ways))
    assert float(found - plain) == pytest.approx(0.7 * more, rel=1e-4)
