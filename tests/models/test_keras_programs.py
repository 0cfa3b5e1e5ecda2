"""Programs that use the models as any other Keras model. No model is built or called beforehand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import minigpt
from minigpt.models.losses import SmoothedCrossentropy
from minigpt.tokenizers.kinds import learn_tokenizer
from tests.settings import tokenizer_config

V = 11
SIZES = {"max_len": 8, "embed_dim": 8, "num_heads": 2, "ff_dim": 12, "num_layers": 1}
IDS = np.random.default_rng(0).integers(1, V, (6, 9))


class WithTemperature(minigpt.GPT):
    """A subclass adds layers after the constructor of its base class."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.temperature = keras.layers.Rescaling(0.5)

    def logits(self, latents):
        return super().logits(self.temperature(latents))


MODELS = {
    "gpt": (minigpt.GPT, IDS[:, :-1]),
    "modern": (minigpt.GPT, IDS[:, :-1]),
    "subclass": (WithTemperature, IDS[:, :-1]),
    "pair": (minigpt.EncoderDecoder, (IDS[:, :-1], IDS[:, 1:])),
}
TARGETS = IDS[:, 1:]


def crossentropy(**settings) -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **settings)


def new_model(kind: str = "gpt", **settings) -> keras.Model:
    keras.utils.set_random_seed(1)
    block = {"block": "modern"} if kind == "modern" else {}
    return MODELS[kind][0](vocab_size=V, **{**SIZES, **block, **settings})


def compiled(kind: str = "gpt", **settings) -> keras.Model:
    model = new_model(kind, dropout_rate=0.0)
    defaults = {"optimizer": "sgd", "loss": crossentropy(), "jit_compile": False}
    model.compile(**{**defaults, **settings})
    return model


@pytest.mark.parametrize(
    "kind", ["modern", pytest.param("subclass", marks=pytest.mark.slow), "pair"]
)
def test_compile_and_fit(kind):
    inputs = MODELS[kind][1]
    model = compiled(kind)
    settings = {"epochs": 3, "batch_size": 3, "shuffle": False, "verbose": 0}
    losses = model.fit(inputs, TARGETS, **settings).history["loss"]
    assert losses[2] < losses[0]
    assert model.evaluate(inputs, TARGETS, verbose=0) < losses[2]
    # The losses are those of the same model, trained by Keras' own step.
    keras_own = compiled(kind, metrics=["accuracy"])
    assert not keras_own.uses_chunked_loss
    assert model.uses_chunked_loss == (kind != "subclass")
    expected = keras_own.fit(inputs, TARGETS, **settings).history
    np.testing.assert_allclose(losses, expected["loss"], rtol=1e-5)
    assert 0 <= expected["accuracy"][0] <= 1


def test_the_first_call_may_be_of_any_method():
    kind, inputs = "gpt", MODELS["gpt"][1]
    as_tensors = tf.nest.map_structure(tf.constant, inputs)
    logits = compiled(kind)(as_tensors, training=False).numpy()
    assert logits.shape == (6, 8, V)
    np.testing.assert_allclose(compiled(kind).predict(inputs, verbose=0), logits, atol=1e-5)
    of_targets = np.take_along_axis(logits, TARGETS[..., None], -1)[..., 0]
    loss = np.mean(np.log(np.exp(logits).sum(-1)) - of_targets)
    for model in (compiled(kind), compiled(kind, run_eagerly=True)):
        np.testing.assert_allclose(model.test_on_batch(inputs, TARGETS), loss, rtol=1e-5)
        np.testing.assert_allclose(model.train_on_batch(inputs, TARGETS), loss, rtol=1e-5)
    assert compiled(kind).evaluate(inputs, TARGETS, verbose=0) == pytest.approx(loss, rel=1e-5)


@pytest.mark.filterwarnings(
    "ignore:(currentThread|getName).* is deprecated:DeprecationWarning:keras_tuner"
)
@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer:UserWarning")
@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_a_tuner_searches_over_models_and_a_generator_prints_their_texts(tmp_path, capsys):
    keras_tuner = pytest.importorskip("keras_tuner", reason="needs keras-tuner, of the extra dev")
    text = "abab cdcd " * 20
    tokenizer = learn_tokenizer([text], tokenizer_config(kind="character", vocab_size=32))
    ids = tokenizer.encode(text)[:198].reshape(22, 9)

    def build_model(hp):
        width = hp.Choice("embed_dim", [4, 8])
        sizes = {**SIZES, "embed_dim": width, "vocab_size": tokenizer.vocab_size}
        model = minigpt.GPT(**sizes)
        rate = hp.Float("learning_rate", 1e-3, 1e-1, sampling="log")
        model.compile(keras.optimizers.Adam(rate), crossentropy(), jit_compile=False)
        return model

    tuner = keras_tuner.GridSearch(
        build_model, "val_loss", max_trials=2, directory=tmp_path, project_name="search"
    )
    generator = minigpt.TextGenerator(tokenizer, ["ab"], max_new_tokens=3)
    x, y = ids[:, :-1], ids[:, 1:]
    data = {"validation_data": (x, y), "verbose": 0}
    tuner.search(x, y, epochs=2, callbacks=[generator], **data)
    assert capsys.readouterr().out.count("[ab]") == 2 * 2
    # The best model has the weights of its best epoch.
    best, trial = tuner.get_best_models(1)[0], tuner.oracle.get_best_trials(1)[0]
    best.compile(loss=crossentropy(), jit_compile=False)
    assert best.evaluate(x, y, verbose=0) == pytest.approx(trial.score, rel=1e-5)


def test_training_continues_with_a_saved_model(tmp_path):
    """As if it had not been interrupted. `load_model` compiles the model again."""

    def fit(model, epochs, *callbacks):
        model.fit(
            *(IDS[:, :-1], TARGETS),
            **{"epochs": epochs, "shuffle": False, "verbose": 0, "callbacks": callbacks},
        )
        return model

    # The step is not traced, which would take most of the time.
    settings = {"loss": SmoothedCrossentropy(0.1), "optimizer": "adam", "run_eagerly": True}
    expected = fit(compiled(**settings), 4)
    fit(compiled(**settings), 2, keras.callbacks.ModelCheckpoint(tmp_path / "m.keras"))
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert loaded.uses_chunked_loss
    for value, right in zip(fit(loaded, 2).weights, expected.weights, strict=True):
        np.testing.assert_allclose(value, right, atol=1e-6)


@pytest.mark.parametrize(
    ("policy", "is_global"),
    [pytest.param("mixed_bfloat16", False, marks=pytest.mark.slow), ("mixed_float16", True)],
)
def test_precision(policy, is_global):
    before = keras.mixed_precision.dtype_policy()
    try:
        if is_global:
            keras.mixed_precision.set_global_policy(policy)
        model = new_model(**({} if is_global else {"dtype": policy}))
    finally:
        keras.mixed_precision.set_global_policy(before)
    model.compile("adam", crossentropy(), jit_compile=False)
    scales = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scales == (policy == "mixed_float16")
    losses = model.fit(IDS[:, :-1], TARGETS, epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[0]
    assert model.latents(IDS[:, :-1]).dtype == policy.removeprefix("mixed_")
    assert model.weights[0].dtype == ("float32" if policy.startswith("mixed") else policy)
