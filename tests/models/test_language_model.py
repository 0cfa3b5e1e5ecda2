"""A training step of a language model equals that of `keras.Model`."""

import keras
import numpy as np
import pytest

from minigpt.models import GPT, EncoderDecoder
from minigpt.models.language_model import batches_done
from minigpt.models.layers.dropout import dropout_masks
from minigpt.models.losses import SmoothedCrossentropy, r_drop_crossentropy

D, V = 6, 11


def gpt(
    tie: bool, dtype: str = "float32", dropout_rate: float = 0.0
) -> tuple[GPT, tuple[np.ndarray, np.ndarray]]:
    keras.utils.set_random_seed(1)
    sizes = {"vocab_size": V, "max_len": 8, "embed_dim": D, "num_heads": 2, "ff_dim": 12}
    model = GPT(**sizes, num_layers=2, dropout_rate=dropout_rate, tie_embeddings=tie, dtype=dtype)
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


@pytest.mark.parametrize(
    ("build", "tie", "smoothing"),
    [(gpt, False, 0.0), (gpt, True, 0.1), (encoder_decoder, False, 0.1)],
)
def test_a_step_equals_that_of_keras(build, tie, smoothing):
    trained, losses = [], []
    for chunked in (True, False):
        model, batch = build(tie)
        mean = "mean_with_sample_weight"
        plain = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=mean)
        loss = SmoothedCrossentropy(smoothing, reduction=mean) if smoothing else plain
        model.compile("sgd", loss=loss, run_eagerly=True)
        assert model.uses_chunked_loss
        model.uses_chunked_loss = chunked
        losses.append(model.train_on_batch(*batch, return_dict=True)["loss"])
        trained.append(model.get_weights())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for ours, keras_own in zip(*trained, strict=True):
        np.testing.assert_allclose(ours, keras_own, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dropout_rate", [0.0, 0.3])
def test_r_drop_compares_equal_rows_with_different_dropout(dropout_rate):
    model, (inputs, targets) = gpt(False, dropout_rate=dropout_rate)
    weights = np.random.default_rng(3).integers(0, 2, targets.shape).astype("float32")
    twice = [np.repeat(array, 2, axis=0) for array in (inputs, targets, weights)]
    with dropout_masks(0):
        logits = model(twice[0], training=True)
    expected, plain = r_drop_crossentropy(logits, *twice[1:], 2.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss=loss, run_eagerly=True, r_drop=2.0)
    logs = model.train_on_batch(*twice, return_dict=True)
    assert logs["loss"] == pytest.approx(float(expected) / twice[1].size, rel=1e-5)
    assert logs["plain_loss"] == pytest.approx(float(plain) / twice[1].size, rel=1e-5)
    # Without dropout, the predictions of equal rows are the same.
    assert (logs["loss"] == pytest.approx(logs["plain_loss"])) == (not dropout_rate)


@pytest.mark.parametrize(
    "compiled",
    [
        {"r_drop": -1.0},
        {"r_drop": 1.0, "metrics": ["accuracy"]},
        {"r_drop": 1.0, "loss": SmoothedCrossentropy(0.1)},
    ],
)
def test_r_drop_is_not_ignored(compiled):
    model, _ = gpt(False)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with pytest.raises(ValueError, match="`r_drop` should"):
        model.compile("sgd", **{"loss": loss, **compiled})


def test_validation_has_no_plain_loss():
    model, (inputs, targets) = gpt(False)
    model.compile("sgd", loss=SmoothedCrossentropy(0.1), run_eagerly=True)
    assert set(model.test_on_batch(inputs, targets, return_dict=True)) == {"loss"}
    assert set(model.train_on_batch(inputs, targets, return_dict=True)) == {"loss", "plain_loss"}


@pytest.mark.parametrize(
    ("reduction", "share"),
    [
        ("sum_over_batch_size", 0.4),
        ("mean", 0.0),
        ("mean_with_sample_weight", 0.4),
        ("mean_with_sample_weight", 0.0),
    ],
)
def test_sample_weights_count_as_in_keras(reduction, share):
    """Regularization counts too. Weights of 0 change nothing else."""
    trained, losses = [], []
    for chunked in (True, False):
        model, (inputs, targets) = gpt(False)
        model.blocks[0].expand.kernel.regularizer = keras.regularizers.L2(0.1)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
        model.compile("sgd", loss=loss, run_eagerly=True)
        assert model.uses_chunked_loss
        model.uses_chunked_loss = chunked
        weights = np.random.default_rng(3).random(targets.shape) < share
        logs = model.train_on_batch(inputs, targets, weights.astype("float32"), return_dict=True)
        losses.append(logs["loss"])
        trained.append(model.get_weights())
    if share:
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for ours, keras_own in zip(*trained, strict=True):
        np.testing.assert_allclose(ours, keras_own, rtol=0, atol=1e-6)


@pytest.mark.parametrize("chunked", [True, False])
def test_the_weight_of_a_sequence_is_that_of_its_tokens(chunked):
    of_sequences = np.array([1.0, 0.0, 0.5, 2.0, 1.0], "float32")
    results = []
    for weights in (of_sequences, np.repeat(of_sequences[:, None], 8, axis=1)):
        model, (inputs, targets) = gpt(False)
        mean = "mean_with_sample_weight"
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=mean)
        model.compile("sgd", loss=loss, run_eagerly=True)
        model.uses_chunked_loss = chunked
        losses = [model.test_on_batch(inputs, targets, weights)]
        losses.append(model.train_on_batch(inputs, targets, weights))
        results.append((losses, model.get_weights()))
    (losses, trained), (expected_losses, expected) = results
    assert losses == pytest.approx(expected_losses, rel=1e-6)
    for ours, repeated in zip(trained, expected, strict=True):
        np.testing.assert_allclose(ours, repeated, rtol=0, atol=1e-7)


@pytest.mark.parametrize("scaled", [False, True])
def test_dropout_masks_depend_on_the_number_of_batches_not_of_updates(scaled):
    """The first variable of a Keras optimizer counts the batches."""
    optimizer = keras.optimizers.SGD(gradient_accumulation_steps=3)
    if scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    variable = keras.Variable([1.0])
    for batch in range(5):
        optimizer.build([variable])
        assert int(batches_done(optimizer)) == batch
        optimizer.apply([keras.ops.ones(1)])
    assert int(optimizer.iterations) == 1


@pytest.mark.parametrize(
    "compiled",
    [
        {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)},
        {
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "metrics": ["accuracy"],
        },
        {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")},
    ],
)
def test_other_losses_are_computed_by_keras(compiled):
    model, (inputs, targets) = gpt(False)
    model.compile("sgd", **compiled, run_eagerly=True)
    assert not model.uses_chunked_loss
    assert np.isfinite(model.train_on_batch(inputs, targets, return_dict=True)["loss"])


def test_weights_of_another_shape_are_refused():
    model, (inputs, targets) = gpt(False)
    model.compile("sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(inputs, targets, sample_weight=np.ones([5, 3]), batch_size=5, verbose=0)
